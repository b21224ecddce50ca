# SPDX-License-Identifier: Apache-2.0
# Types of the extension module. A test compares the names here with those in the module.

import enum
from collections.abc import Sequence
from types import EllipsisType, TracebackType
from typing import Any, ClassVar, Self, SupportsFloat, SupportsIndex, TypeVar, overload

from typing_extensions import Buffer as _HasBuffer
from typing_extensions import CapsuleType

from . import ipc as ipc

__version__: str

_Target = TypeVar("_Target")
_Extents = SupportsIndex | Sequence[SupportsIndex]
_Index = SupportsIndex | slice | EllipsisType | None

class Errc(enum.Enum):
    """What went wrong, whichever backend found it."""

    invalid_argument = 1
    unsupported = 2
    incompatible = 3
    closed = 4
    device_lost = 5
    peer_gone = 6
    corrupt_descriptor = 7
    permission_denied = 8
    timed_out = 9
    out_of_memory = 10

class Error(RuntimeError):
    """Every failure but exhaustion."""

    condition: Errc | None
    code: int
    category: str

class OutOfMemory(MemoryError):
    """A resource could not provide the memory. Sizes in bytes, 0 where unknown."""

    requested: int
    alignment: int
    in_use: int
    reserved: int
    limit: int
    largest_free: int
    device_free: int
    device: str
    resource: str
    call: str
    code: int
    category: str

class MemoryKind(enum.Enum):
    """Kinds of memory, across backends."""

    pageable = 0
    shared = 1
    pinned = 2
    managed = 3
    device = 4
    async_ = 5
    vmm = 6
    upload = 7
    readback = 8
    mappable = 9
    external = 10

class KindInfo:
    """What one kind of memory on one device can do."""

    @property
    def kind(self) -> MemoryKind: ...
    @property
    def host_accessible(self) -> bool: ...
    @property
    def device_accessible(self) -> bool: ...
    @property
    def exportable(self) -> bool: ...
    @property
    def alignment(self) -> int: ...
    @property
    def granularity(self) -> int: ...

    @property
    def dlpack_device(self) -> int:
        """DLDeviceType of tensors in it"""

    def __repr__(self) -> str: ...

class Device:
    """Names one device of one backend. A value."""

    @property
    def id(self) -> str:
        """for example 'cuda:0'; accepted by weir.device()"""

    @property
    def backend(self) -> str: ...
    @property
    def ordinal(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def driver(self) -> str: ...

    @property
    def uuid(self) -> str:
        """equal for the CUDA and Vulkan views of one GPU"""

    @property
    def is_gpu(self) -> bool: ...

    @property
    def total_memory(self) -> int:
        """bytes; 0 when unknown"""

    @property
    def kinds(self) -> list[KindInfo]: ...
    @property
    def default_kind(self) -> MemoryKind: ...

    def find(self, kind: MemoryKind) -> KindInfo | None:
        """KindInfo, or None when the device has no such memory"""

    def __eq__(self, other: object) -> bool: ...

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

class BackendInfo:
    """One backend of this build."""

    @property
    def name(self) -> str: ...
    @property
    def devices(self) -> list[Device]: ...

    @property
    def unavailable_because(self) -> str:
        """one line; empty when there are devices"""

    def __repr__(self) -> str: ...

def backends() -> list[BackendInfo]:
    """Every backend of this build."""

def devices() -> list[Device]:
    """Every device of every backend: cuda, then vulkan, then host."""

def host_device() -> Device:
    """The host. Never touches a GPU driver."""

def device(id: str) -> Device:
    """The device named 'backend' or 'backend:ordinal'."""

def best_device() -> Device:
    """WEIR_DEVICE if set, else a CUDA device, else a GPU of Vulkan, else the host, else a CPU driver of Vulkan."""

class Event:
    """A point on a stream's timeline. A value; an event made empty is done."""

    def __init__(self) -> None: ...

    @property
    def done(self) -> bool:
        """Whether everything before the point is complete. Never blocks."""

    def wait(self, timeout: float | None = None) -> bool:
        """Block until complete: True, or False when `timeout` seconds passed first. The work then goes on."""

    def __repr__(self) -> str: ...

class Stream:
    """An ordered queue of work on one device. There is no default stream."""

    def __init__(self, device: Device) -> None: ...
    @property
    def device(self) -> Device: ...

    @property
    def id(self) -> int:
        """unique in this process, never reused"""

    def record(self) -> Event:
        """The point after everything put on the stream so far."""

    def wait(self, event: Event) -> None:
        """Order what follows after `event`, of any stream of any backend. Never blocks."""

    def synchronize(self, timeout: float | None = None) -> bool:
        """Block until everything put on the stream so far is complete: True, or False when `timeout` seconds
        passed first. The work then goes on."""

    @property
    def done(self) -> bool:
        """Whether everything put on the stream so far is complete. Never blocks."""

    def flush(self) -> None:
        """Hand work that was held back for batching to the device now."""

    @property
    def __cuda_stream__(self) -> object:
        """CUDA only: call it for (0, handle)."""

    def __eq__(self, other: object) -> bool: ...

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

def borrow_cuda_stream(device: Device, stream: object) -> Stream:
    """Stream over a CUDA stream that others own: a handle as int, or an object with __cuda_stream__ (cuda.core,
    CuPy, PyTorch). It must outlive the work put on it."""

class MemoryResource:
    """Source of memory. Thread-safe; its Buffers keep it alive."""

    def allocate(self, size: SupportsIndex, *, stream: Stream, alignment: SupportsIndex = 256) -> Buffer:
        """Allocate `size` bytes, usable on `stream` at once and elsewhere after waiting for a point of it. Raises
        OutOfMemory."""

    def try_allocate(self, size: SupportsIndex, *, stream: Stream, alignment: SupportsIndex = 256) -> Buffer | None:
        """As allocate, but None when memory is exhausted."""

    @property
    def device(self) -> Device: ...

    @property
    def name(self) -> str:
        """for example 'host.shared'"""

    @property
    def kind(self) -> MemoryKind: ...
    @property
    def is_host_accessible(self) -> bool: ...
    @property
    def is_device_accessible(self) -> bool: ...

    @property
    def is_exportable(self) -> bool:
        """whether its Buffers can go to another process"""

    @property
    def upstream(self) -> MemoryResource | None:
        """the resource this one stands on, or None"""

    def stats(self) -> dict[str, int]:
        """
        Counters in bytes: in_use, reserved, peak_in_use, peak_reserved; and live_buffers, allocations. Where the driver
        says them, also device_budget and device_free, in bytes.
        """

    def trim(self, bytes_to_keep: SupportsIndex = 0) -> int:
        """Give back unused memory; the bytes given back."""

    def __repr__(self) -> str: ...

def make_resource(device: Device, kind: MemoryKind | str | None = None, *, exportable: bool = False) -> MemoryResource:
    """The plain resource of one kind of memory; None is the device's default kind."""

def current_resource(device: Device | None = None) -> MemoryResource:
    """
    The resource that this process agreed on for `device` (None: best_device()): a pool, until set_current_resource
    names another.
    """

def set_current_resource(device: Device, resource: MemoryResource | None) -> MemoryResource:
    """Make `resource` the current one of `device`, None for its pool, and return the previous one."""

class Tensor:
    """A Buffer seen as an array. Shares its ownership; what NumPy and others take by DLPack."""

    __dlpack_c_exchange_api__: ClassVar[CapsuleType]
    """DLPack's table of C functions. Its tensors are in order of the thread's work_stream."""

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

    @property
    def buffer(self) -> Buffer:
        """another owner of the same memory"""

    @property
    def dtype(self) -> str:
        """for example 'float32'"""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def strides(self) -> tuple[int, ...]:
        """in elements"""

    @property
    def byte_offset(self) -> int: ...

    @property
    def size(self) -> int:
        """elements"""

    @property
    def itemsize(self) -> int: ...
    @property
    def ndim(self) -> int: ...
    @property
    def nbytes(self) -> int:
        """of all elements, without gaps"""

    @property
    def device(self) -> Device: ...
    @property
    def is_contiguous(self) -> bool: ...
    @property
    def is_read_only(self) -> bool: ...

    def __len__(self) -> int: ...
    def __getitem__(self, key: _Index | tuple[_Index, ...]) -> Tensor:
        """Part of the elements, in the same memory, by NumPy's basic indexing: integers, slices, '...' and None."""

    def reshape(self, *shape: _Extents) -> Tensor:
        """The same elements with another shape, in the same memory; one extent may be -1. Raises Error where they
        would have to be copied."""

    def transpose(self, *axes: _Extents) -> Tensor:
        """The same elements with the dimensions in the order of `axes`, or reversed."""

    @property
    def T(self) -> Tensor:
        """with the dimensions reversed"""

    def copy_to(self, dst: Tensor | None = None, *, stream: Stream) -> Tensor:
        """Enqueue a copy of all elements to those of a tensor of the same shape and element type, which may lie
        anywhere and in any way, or to a new one without gaps from this one's resource. Returns the destination."""

    def copy_from(self, src: Tensor, *, stream: Stream) -> None:
        """Enqueue a copy of all elements of `src`, a tensor of the same shape and element type, to those of this one.
        An array of NumPy becomes a tensor by from_dlpack; do not change it before the copy is complete."""

    def __repr__(self) -> str: ...

def from_dlpack(obj: object, *, stream: Stream | None = None) -> Tensor:
    """Take over a tensor of another framework without a copy. It may be used on `stream` at once; None is a new
    stream of the host that the thread keeps, or CUDA's legacy default stream. Tensors of DLPack before 1.0 come in
    read-only, because they cannot say that they may be written."""

class work_stream:
    """Context in which DLPack's C exchange API puts this thread's work on `stream`: libraries that take tensors by it
    launch there, and what they allocate is usable there at once. Without one, CUDA memory is in order of the legacy
    default stream."""

    def __init__(self, stream: Stream) -> None: ...
    def __enter__(self) -> Stream: ...
    def __exit__(self, *args: object) -> None: ...

class Buffer:
    """Owner of a range of memory. Made by MemoryResource.allocate. The memory goes back when the last owner is
    gone: Buffer, slice, Tensor, DLPack consumer, memoryview."""

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

    @property
    def size(self) -> int:
        """bytes; 0 when closed"""

    @property
    def nbytes(self) -> int: ...

    @property
    def host_data(self) -> int:
        """address for the host; 0 when it cannot reach the memory"""

    @property
    def device_address(self) -> int:
        """address for the device; 0 when there is none"""

    @property
    def handle(self) -> int:
        """the same as device_address"""

    @property
    def device(self) -> Device: ...
    @property
    def memory_resource(self) -> MemoryResource: ...
    @property
    def kind(self) -> MemoryKind: ...
    @property
    def is_host_accessible(self) -> bool: ...
    @property
    def is_device_accessible(self) -> bool: ...
    @property
    def is_read_only(self) -> bool: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...

    def __repr__(self) -> str: ...

    def share(self) -> Buffer:
        """A second owner of the same bytes."""

    def slice(self, offset: SupportsIndex, size: SupportsIndex) -> Buffer:
        """A second owner of part of the bytes."""

    @overload
    def copy_to(
        self, dst: None = None, *, stream: Stream, src_offset: SupportsIndex = 0, size: SupportsIndex | None = None
    ) -> Buffer:
        """Enqueue a copy to a new buffer from this one's resource."""

    @overload
    def copy_to(
        self,
        dst: _Target,
        *,
        stream: Stream,
        src_offset: SupportsIndex = 0,
        dst_offset: SupportsIndex = 0,
        size: SupportsIndex | None = None,
    ) -> _Target:
        """Enqueue a copy to a Buffer, Tensor or writable object with the buffer protocol."""

    def copy_from(
        self,
        src: Buffer | Tensor | _HasBuffer,
        *,
        stream: Stream,
        src_offset: SupportsIndex = 0,
        dst_offset: SupportsIndex = 0,
        size: SupportsIndex | None = None,
    ) -> None:
        """Enqueue a copy from a Buffer, Tensor or object with the buffer protocol, which is read before the call
        returns. Without `size` both sides must be equally long from the offsets on."""

    def fill(
        self,
        value: SupportsIndex | SupportsFloat | complex | _HasBuffer,
        *,
        stream: Stream,
        width: SupportsIndex | None = None,
        offset: SupportsIndex = 0,
        size: SupportsIndex | None = None,
        dtype: object = None,
    ) -> None:
        """
        Enqueue a fill of `size` bytes from `offset` on, which are a multiple of the value's. The value is an int of
        `width` bytes (1, 2, 4 or 8; 1 without), a bool, a float of `width` bytes (2, 4 or 8; 8 without), 1, 2, 4 or 8
        bytes, or a scalar of NumPy, which has the bytes of its own type. With `dtype` it is one element of that type,
        into which it must fit. Raises TypeError and ValueError for other values.
        """

    def use_on(self, stream: Stream) -> None:
        """Say that work outside weir uses the memory on `stream` up to now."""

    def view(
        self, dtype: object = "uint8", shape: _Extents | None = None, *, byte_offset: SupportsIndex = 0
    ) -> Tensor:
        """Array over this memory, row-major without gaps; all of it without a shape."""

    def ipc_descriptor(self, *, stream: Stream) -> ipc.Descriptor:
        """Descriptor for another process, which is ordered after `stream` and every recorded use."""

    def close(self, stream: Stream | None = None) -> None:
        """Drop this owner. The memory is reused after all recorded uses, and after `stream` if given. Never
        blocks."""

    def __len__(self) -> int:
        """bytes"""

    def __bool__(self) -> bool:
        """True, also for zero bytes: `if` tells a Buffer from None."""

    def __bytes__(self) -> bytes:
        """A copy of the bytes, once everything that uses them is complete. Blocks until then."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @staticmethod
    def from_handle(
        device: Device, address: SupportsIndex, size: SupportsIndex, owner: object, *, stream: Stream
    ) -> Buffer:
        """Buffer over memory that `owner` keeps alive; it is dropped when all uses are complete."""
