# SPDX-License-Identifier: Apache-2.0
"""PyTorch's CUDA memory from resources of weir.

    pool = weir.make_limiting(weir.make_pool(weir.make_resource(device)), 8 << 30)
    allocator = weir.torch.make_allocator(pool)
    with allocator.use():                        # PyTorch's own cache stands over it, for what is allocated here
        model(batch)

    weir.torch.make_allocator(pool).install()    # or: everything, without PyTorch's cache, before CUDA is first used

PyTorch hands memory back in the order of the stream that it was allocated on, so an ExternalStream must outlive all memory
that PyTorch took on it. In a CUDA graph, memory stays with the graph until that ends. PyTorch's cache learns that memory
has run out, but not why: see `Allocator.last_failure`.
"""

from contextlib import contextmanager as _contextmanager

from . import _weir

__all__ = ["Allocator", "make_allocator"]


def _torch():
    try:
        import torch
    except ImportError as error:
        raise ImportError("weir.torch needs PyTorch with CUDA: see https://pytorch.org") from error
    return torch


class Allocator:
    """Made by make_allocator. It stays until the process ends, because PyTorch may use it until then."""

    def __init__(self, *resources):
        if not resources:
            raise ValueError("weir.torch: name at least one resource")
        torch = _torch()
        self._allocators = [_weir.CudaAllocator(resource) for resource in resources]
        self._names = _weir._take_torch_hook(self._allocators)
        self._pluggable = torch.cuda.memory.CUDAPluggableAllocator(_weir.__file__, *self._names)
        self._mem_pool = None

    @property
    def pluggable(self):
        """The torch.cuda.memory.CUDAPluggableAllocator."""
        return self._pluggable

    def install(self):
        """Make PyTorch take all CUDA memory from here. Only before PyTorch has used CUDA; its cache, its statistics
        and its memory snapshots then say nothing. What fails raises RuntimeError with the reason."""
        _torch().cuda.memory.change_current_allocator(self._pluggable)
        _weir._torch_hook_raises(self._names[0])

    def mem_pool(self):
        """Return the torch.cuda.MemPool over this allocator. PyTorch's cache stands over it, so memory comes in blocks
        of 2 MiB and more, and goes back when PyTorch gives blocks back."""
        if self._mem_pool is None:
            self._mem_pool = _torch().cuda.MemPool(self._pluggable.allocator())
        return self._mem_pool

    @_contextmanager
    def use(self):
        """Take the CUDA memory of this thread from mem_pool() inside a `with` block."""
        with _torch().cuda.use_mem_pool(self.mem_pool()):
            yield self

    @property
    def live(self):
        """number of addresses that PyTorch has and has not given back"""
        return sum(allocator.live for allocator in self._allocators)

    @property
    def last_failure(self):
        """why the last allocation that failed did so; None if none did"""
        return _weir._torch_hook_failure(self._names[0])


def make_allocator(*resources):
    """Make an Allocator over resources, each of another CUDA device. At most 32 can be made in a process."""
    return Allocator(*resources)
