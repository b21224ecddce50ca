# SPDX-License-Identifier: Apache-2.0

from contextlib import AbstractContextManager
from typing import Any

from typing_extensions import Self

from ._weir import MemoryResource

class Allocator:
    """Made by make_allocator. It stays until the process ends, because PyTorch may use it until then."""

    def __init__(self, *resources: MemoryResource) -> None: ...
    @property
    def pluggable(self) -> Any:
        """The torch.cuda.memory.CUDAPluggableAllocator."""

    def install(self) -> None:
        """Make PyTorch take all CUDA memory from here. Only before PyTorch has used CUDA; its cache, its statistics
        and its memory snapshots then say nothing. What fails raises RuntimeError with the reason."""

    def mem_pool(self) -> Any:
        """Return the torch.cuda.MemPool over this allocator. PyTorch's cache stands over it, so memory comes in blocks
        of 2 MiB and more, and goes back when PyTorch gives blocks back."""

    def use(self) -> AbstractContextManager[Self]:
        """Take the CUDA memory of this thread from mem_pool() inside a `with` block."""

    @property
    def live(self) -> int:
        """number of addresses that PyTorch has and has not given back"""

    @property
    def last_failure(self) -> str | None:
        """why the last allocation that failed did so; None if none did"""

def make_allocator(*resources: MemoryResource) -> Allocator:
    """Make an Allocator over resources, each of another CUDA device. At most 32 can be made in a process."""
