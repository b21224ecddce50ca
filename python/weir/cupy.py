# SPDX-License-Identifier: Apache-2.0
"""CuPy's CUDA memory from a resource of weir.

    cupy.cuda.set_allocator(weir.cupy.make_allocator(pool))

An array's memory is for the stream that is current when the array is made. When the array ends, that stream may use the
memory again at once, and other streams after what that stream has by then. The stream may be gone by then. As with CuPy's
own pool, an array that other streams used must not end before they are done with it.
"""

from . import _weir

__all__ = ["make_allocator"]


def _cupy():
    try:
        import cupy
    except ImportError as error:
        raise ImportError("weir.cupy needs CuPy: pip install cupy-cuda12x or cupy-cuda13x") from error
    return cupy


def make_allocator(resource):
    """Make a function for cupy.cuda.set_allocator and cupy.cuda.using_allocator. Raises OutOfMemory, a MemoryError,
    when the resource is exhausted, and ValueError on another device than the resource's."""
    cupy = _cupy()
    allocator = _weir.CudaAllocator(resource)
    device = resource.device

    def allocate(size, ordinal):
        if device.backend == "cuda" and ordinal != device.ordinal:
            raise ValueError(f"weir.cupy: memory of {device.id} was asked for on CUDA device {ordinal}")
        return allocator.allocate(size, stream=cupy.cuda.get_current_stream().ptr)

    def free(address, ordinal):
        allocator.deallocate(address)

    return cupy.cuda.PythonFunctionAllocator(allocate, free).malloc
