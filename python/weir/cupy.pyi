# SPDX-License-Identifier: Apache-2.0

from collections.abc import Callable
from typing import Any

from ._weir import MemoryResource

def make_allocator(resource: MemoryResource) -> Callable[[int], Any]:
    """Make a function for cupy.cuda.set_allocator and cupy.cuda.using_allocator. Raises OutOfMemory, a MemoryError, when
    the resource is exhausted, and ValueError on another device than the resource's."""
