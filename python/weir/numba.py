# SPDX-License-Identifier: Apache-2.0
"""Numba's CUDA memory from resources of weir, by Numba's interface for external memory managers.

    numba.cuda.set_memory_manager(weir.numba.make_memory_manager(pool))

Or set NUMBA_CUDA_MEMORY_MANAGER=weir.numba: then memory comes from weir.current_resource() of each device. Numba names
no stream. Memory is for the legacy default stream, and is reused after it: what runs on non-blocking streams must be
done before the last reference to an array goes.
"""

import ctypes as _ctypes

from . import _weir

__all__ = ["make_memory_manager"]

_LEGACY_STREAM = 1


def _numba_cuda():
    try:
        import numba.cuda
    except ImportError as error:
        raise ImportError("weir.numba needs Numba for CUDA: pip install numba-cuda") from error
    return numba.cuda


class _Allocators:
    """One for each device, made when memory of the device is first asked for."""

    def __init__(self, resources):
        self._made = {}
        for resource in resources:
            if resource.device.ordinal in self._made:
                raise ValueError(f"weir.numba: two resources for {resource.device.id}")
            self._made[resource.device.ordinal] = _weir.CudaAllocator(resource)

    def of(self, ordinal):
        if ordinal not in self._made:
            resource = _weir.current_resource(_weir.device(f"cuda:{ordinal}"))
            self._made[ordinal] = _weir.CudaAllocator(resource)
        return self._made[ordinal]


def make_memory_manager(*resources):
    """Make a class for numba.cuda.set_memory_manager, over resources of different CUDA devices. Devices that none of
    them is of use weir.current_resource(). Pinned and mapped host memory stays Numba's own."""
    cuda = _numba_cuda()
    allocators = _Allocators(resources)

    class MemoryManager(cuda.HostOnlyCUDAMemoryManager):
        """Device memory of weir."""

        def initialize(self):
            pass

        def memalloc(self, size):
            allocator = allocators.of(int(self.context.device.id))
            address = allocator.allocate(size, stream=_LEGACY_STREAM)

            def free():
                allocator.deallocate(address, stream=_LEGACY_STREAM)

            return cuda.MemoryPointer(self.context, _ctypes.c_void_p(address), size, finalizer=free)

        def get_memory_info(self):
            raise NotImplementedError("weir.numba: ask the resource for its stats(), or the driver for the device's")

        def get_ipc_handle(self, memory):
            raise NotImplementedError("weir.numba: share buffers with other processes by weir.ipc")

        @property
        def interface_version(self):
            return 1

    return MemoryManager


def __getattr__(name):
    if name == "_numba_memory_manager":
        return make_memory_manager()
    raise AttributeError(f"module 'weir.numba' has no attribute {name!r}")
