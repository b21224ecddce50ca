# SPDX-License-Identifier: Apache-2.0
"""Memory shared by GPUs, CPUs, processes and frameworks.

    device = weir.best_device()
    stream = weir.Stream(device)
    buffer = weir.make_resource(device).allocate(1 << 20, stream=stream)
    buffer.fill(42, stream=stream)
    array = numpy.from_dlpack(buffer, device="cpu")

There is no default stream: every call that puts work on a stream names it. Everything is implemented in C++; the
headers state the contract of each operation.
"""

from . import ipc
from ._weir import (
    BackendInfo,
    Buffer,
    Device,
    Errc,
    Error,
    Event,
    KindInfo,
    MemoryKind,
    MemoryResource,
    OutOfMemory,
    Stream,
    Tensor,
    __version__,
    backends,
    best_device,
    borrow_cuda_stream,
    current_resource,
    device,
    devices,
    from_dlpack,
    host_device,
    make_resource,
    set_current_resource,
    work_stream,
)

__all__ = [
    "BackendInfo",
    "Buffer",
    "Device",
    "Errc",
    "Error",
    "Event",
    "KindInfo",
    "MemoryKind",
    "MemoryResource",
    "OutOfMemory",
    "Stream",
    "Tensor",
    "__version__",
    "backends",
    "best_device",
    "borrow_cuda_stream",
    "current_resource",
    "device",
    "devices",
    "from_dlpack",
    "host_device",
    "ipc",
    "make_resource",
    "set_current_resource",
    "work_stream",
]
