# SPDX-License-Identifier: Apache-2.0
"""RAPIDS' CUDA memory from a resource of weir, and a resource of weir over one of RAPIDS.

    rmm.mr.set_current_device_resource(weir.rmm.make_resource(pool))
    resource = weir.rmm.from_resource(rmm.mr.CudaAsyncMemoryResource(), weir.device("cuda:0"))

Each call goes through Python. In C++, weir/interop/cccl.hpp does the same without.
"""

from . import _weir

__all__ = ["from_resource", "make_resource"]


def _rmm():
    try:
        import rmm
        import rmm.mr
        import rmm.pylibrmm.stream
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


class _Lent:
    """A resource of RMM, and the stream on which it allocates and gets memory back, also as RMM knows it."""

    def __init__(self, resource, stream, native):
        self._resource, self._stream, self._native = resource, stream, native

    def allocate(self, size, stream):
        address = self._resource.allocate(size, self._native)
        try:
            stream.wait(self._stream.record())
        except BaseException:
            self.deallocate(address, size)
            raise
        return address

    def deallocate(self, address, size):
        self._resource.deallocate(address, size, self._native)

    # A pool of the driver must not end before what it got back is carried out: drivers were seen to crash.
    def __del__(self):
        try:
            self._stream.synchronize()
        except _weir.Error:  # lost: nothing is carried out any more
            pass


def from_resource(resource, device, *, name="rmm", host_accessible=False):
    """Make a resource of weir over one of RMM, on which pools, adaptors and Buffers of weir can stand. `device` is the
    one whose memory `resource` has; as RMM asks, it must be the current one whenever memory is allocated. Say
    `host_accessible` for managed and pinned memory. The resource is kept until the last of its memory is given back.
    Memory is allocated on a stream of its own, for which the user's stream waits, and goes back when no use of it is
    left. Each Buffer is a call of RMM, so put a pool over this, or a pool of RMM under it. See make_callback_resource
    for the rest."""
    if device.backend != "cuda":
        raise ValueError(f"weir.rmm: device must be a CUDA device, not {device.id}")
    rmm = _rmm()
    stream = _weir.Stream(device)
    lent = _Lent(resource, stream, rmm.pylibrmm.stream.Stream(stream))
    return _weir.make_callback_resource(
        device, lent.allocate, lent.deallocate, name=name, host_accessible=host_accessible
    )
