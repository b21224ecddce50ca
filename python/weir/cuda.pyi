# SPDX-License-Identifier: Apache-2.0

from typing import Any, Protocol, SupportsIndex, overload

from ._weir import Buffer, Device, MemoryResource, Stream

class _HasFileno(Protocol):
    def fileno(self) -> int: ...

class _HasInt(Protocol):
    def __int__(self) -> int: ...

class _Descriptor(Protocol):
    @property
    def size(self) -> int: ...

class ImportedPool:
    """A pool of CUDA's driver that another process made. Opens its memory, and makes none."""

    def __init__(self, device: Device, file: int | _HasFileno | _HasInt) -> None:
        """Import the pool that `file` names: cuda.core's allocation handle, or a file descriptor, which stays the
        caller's. `device` is the same GPU."""

    @property
    def device(self) -> Device: ...
    @overload
    def open(self, descriptor: _Descriptor, *, stream: Stream) -> Buffer: ...
    @overload
    def open(self, descriptor: bytes, size: SupportsIndex, *, stream: Stream) -> Buffer:
        """The memory that cuda.core's descriptor names, or 64 bytes of the driver beside a size, usable on `stream` at
        once. The sender's work on it must be complete. Close it, when its work is complete, before the sender closes
        the memory."""

def make_async_resource(
    device: Device,
    *,
    release_threshold: SupportsIndex | None = None,
    max_size: SupportsIndex = 0,
    exportable: bool = False,
) -> MemoryResource:
    """A resource over a memory pool of the driver, which keeps up to `release_threshold` bytes of unused memory (None:
    all) and holds at most `max_size` (0: no limit). An exportable one gives nothing back before it ends."""

def make_vmm_resource(device: Device, *, exportable: bool = False, vulkan: bool = False) -> MemoryResource:
    """A resource of physical memory that is mapped into reserved addresses: a handle of the driver for each buffer, and
    sizes in steps of 2 MiB on most devices. Other processes can open an exportable one. With `vulkan`, Vulkan devices of
    the same GPU reach the buffers without a copy, by their streams and by weir.vulkan.native; a pool takes such memory by
    whole segments. NVIDIA's driver opens it, which Vulkan's specification does not provide for."""

def export_pool(resource: MemoryResource) -> int:
    """A new file descriptor that names the pool of an exportable resource, for
    `DeviceMemoryResource.from_allocation_handle`. Close it with os.close."""

def export_pointer(buffer: Buffer) -> bytes:
    """The driver's name of the buffer's memory, 64 bytes. Synchronize before it is sent."""

def core_descriptor(buffer: Buffer) -> Any:
    """The same as a descriptor for cuda.core's `Buffer.from_ipc_descriptor`. Needs cuda.core."""
