# SPDX-License-Identifier: Apache-2.0

from typing import Any

from ._weir import MemoryResource

def make_memory_manager(*resources: MemoryResource) -> type[Any]:
    """Make a class for numba.cuda.set_memory_manager, over resources of different CUDA devices. Devices that none of
    them is of use weir.current_resource(). Pinned and mapped host memory stays Numba's own."""
