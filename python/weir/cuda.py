# SPDX-License-Identifier: Apache-2.0
"""Pools of CUDA's driver between processes, in the form of NVIDIA's cuda.core: a file names the pool, and a descriptor
each buffer.

    pool = weir.cuda.ImportedPool(device, mr.allocation_handle)              # a DeviceMemoryResource of another process
    buffer = pool.open(descriptor, stream=stream)                            # its Buffer.ipc_descriptor

    resource = weir.cuda.make_async_resource(device, exportable=True)        # the other way
    file, descriptor = weir.cuda.export_pool(resource), weir.cuda.core_descriptor(buffer)

The driver counts nobody who has the memory: the receiver must close its buffer before the sender does. Processes that
both use weir share memory by weir.ipc or multiprocessing, where any order is right.

And memory that Vulkan reaches, too: make_vmm_resource(device, vulkan=True).
"""

from ._weir import cuda as _cuda

export_pointer = _cuda.export_pointer
export_pool = _cuda.export_pool
make_async_resource = _cuda.make_async_resource
make_vmm_resource = _cuda.make_vmm_resource


def _parts_of(descriptor):
    """The bytes and the size of cuda.core's descriptor, which shows them where it is pickled."""
    if isinstance(descriptor, bytes):
        raise TypeError("size is needed beside the bytes of a descriptor")
    try:
        pointer, size = descriptor.__reduce__()[1]
    except (TypeError, ValueError):
        kind = type(descriptor).__name__
        raise TypeError(f"descriptor must be one of cuda.core, or bytes beside a size, not {kind}") from None
    return pointer, size


class ImportedPool(_cuda.ImportedPool):
    __doc__ = _cuda.ImportedPool.__doc__

    def open(self, descriptor, size=None, *, stream):
        if size is None:
            descriptor, size = _parts_of(descriptor)
        return self._open(descriptor, size, stream=stream)


def core_descriptor(buffer):
    from cuda.core._memory._ipc import IPCBufferDescriptor

    return IPCBufferDescriptor._init(export_pointer(buffer), buffer.size)


__all__ = [
    "ImportedPool",
    "core_descriptor",
    "export_pointer",
    "export_pool",
    "make_async_resource",
    "make_vmm_resource",
]
