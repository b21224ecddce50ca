# SPDX-License-Identifier: Apache-2.0
"""RAPIDS' CUDA memory from a resource of weir.

    rmm.mr.set_current_device_resource(weir.rmm.make_resource(pool))

Each call goes through Python. In C++, weir/interop/cccl.hpp does the same without.
"""

from . import _weir

__all__ = ["make_resource"]


def _rmm():
    try:
        import rmm
        import rmm.mr
    except ImportError as error:
        raise ImportError("weir.rmm needs RMM: pip install rmm-cu12 or rmm-cu13") from error
    return rmm


def make_resource(resource):
    """Make an rmm.mr.CallbackMemoryResource. Memory is for the stream that RMM names, and is reused after what the
    stream has when it comes back."""
    rmm = _rmm()
    allocator = _weir.CudaAllocator(resource)

    def allocate(size, stream):
        return allocator.allocate(size, stream=stream)

    def deallocate(address, size, stream):
        allocator.deallocate(address, stream=stream)

    return rmm.mr.CallbackMemoryResource(allocate, deallocate)
