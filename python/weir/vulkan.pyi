# SPDX-License-Identifier: Apache-2.0

from collections.abc import Sequence
from ctypes import c_uint64, c_void_p
from typing import Any, Protocol, SupportsIndex, overload

from ._weir import Buffer, Device, Stream

class _Lock(Protocol):
    def acquire(self) -> Any: ...
    def release(self) -> Any: ...

_Handle = SupportsIndex | c_uint64 | c_void_p

class NativeBuffer:
    """Handles of a Buffer as ints. All are 0 for zero bytes."""

    @property
    def buffer(self) -> int:
        """VkBuffer of the whole segment"""

    @property
    def offset(self) -> int:
        """of the first byte within `buffer`"""

    @property
    def size(self) -> int:
        """bytes"""

    @property
    def memory(self) -> int:
        """VkDeviceMemory that `buffer` is bound to"""

    @property
    def memory_offset(self) -> int:
        """of the first byte within `memory`"""

    @property
    def allocation_size(self) -> int:
        """of all of `memory`; 0 for wrapped buffers"""

    @property
    def dedicated(self) -> bool:
        """`memory` was allocated for `buffer` alone"""

    @property
    def device_address(self) -> int:
        """of the first byte; 0 without bufferDeviceAddress"""

class NativeStream:
    """Handles of a Stream as ints."""

    @property
    def device(self) -> int:
        """VkDevice"""

    @property
    def queue(self) -> int:
        """VkQueue, which other streams may share"""

    @property
    def family(self) -> int:
        """of `queue`"""

    @property
    def semaphore(self) -> int:
        """VkSemaphore, timeline; signalled by weir only"""

    @property
    def value(self) -> int:
        """reached when everything put on the stream so far is complete"""

def adopt(
    *,
    instance: _Handle,
    physical_device: _Handle,
    device: _Handle,
    queues: Sequence[_Handle | tuple[_Handle, _Lock | None]],
    queue_family: SupportsIndex,
    get_instance_proc_addr: object = None,
    timeline_semaphore: bool = False,
    buffer_device_address: bool = False,
    external_memory_fd: bool = False,
    debug_utils: bool = False,
) -> Device:
    """
    Device over an application's VkDevice, which must stay valid until release(). Handles are ints or pointers of ctypes.
    `queues` are those of `queue_family` that weir may submit to: a handle each, or a tuple of a handle and the
    application's lock of that queue, such as a threading.Lock. weir acquires the lock around every use, on any thread;
    whoever holds it must not call weir, and it is kept until the interpreter ends. Without a lock the queue must be weir's alone. Without `get_instance_proc_addr`
    that of libvulkan.so.1 is taken. `timeline_semaphore` (which must be), `buffer_device_address`,
    VK_KHR_`external_memory_fd` and VK_EXT_`debug_utils` say what is enabled. The device is not listed in devices().
    Raises Error.
    """

def release(device: Device) -> None:
    """
    End an adoption: wait for weir's work and for the adopted queues. Afterwards the application may destroy the
    VkDevice, and weir refuses the Device. Raises Error while Buffers or Streams of the device are alive.
    """

def wrap(
    device: Device,
    buffer: _Handle,
    size: SupportsIndex,
    owner: object,
    *,
    stream: Stream,
    memory: _Handle | None = None,
    memory_offset: SupportsIndex = 0,
    host_address: SupportsIndex = 0,
) -> Buffer:
    """
    Buffer over an application's VkBuffer of `size` bytes, which must be bound to memory, have transfer usage, and belong
    to the family of weir's queues. `owner` keeps it alive, and is dropped when all uses are complete. `memory` is what
    it is bound to, at `memory_offset`; without it, each copy waits for all work before it. `host_address` is where its
    first byte is mapped, coherently; 0 when it is not.
    """

@overload
def native(buffer: Buffer, device: Device | None = None) -> NativeBuffer:
    """
    Handles of a Buffer, which owns them. Call Buffer.use_on after work of your own with them. Memory of
    weir.cuda.make_vmm_resource(vulkan=True) has handles on the Vulkan device of its GPU: the listed one, or `device`, such
    as an adopted one.
    """

@overload
def native(stream: Stream) -> NativeStream:
    """
    Hand everything on a Stream to its queue, and return its handles, which it owns, with the value that its semaphore has
    when all of that is complete.
    """

def wait(stream: Stream, semaphore: _Handle, value: SupportsIndex) -> None:
    """
    Order what follows on `stream` after `value` of an application's timeline semaphore of the same VkDevice. The signal
    must already be submitted. The semaphore must live until the stream has passed this point.
    """
