# SPDX-License-Identifier: Apache-2.0
# Types of the extension module. A test compares the names here with those in the module.

import enum
import os
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType, TracebackType
from typing import Any, ClassVar, NoReturn, Protocol, SupportsFloat, SupportsIndex, TypeVar, overload

from typing_extensions import Buffer as _HasBuffer
from typing_extensions import CapsuleType, Self

from . import cuda as cuda
from . import ipc as ipc

__version__: str

_Target = TypeVar("_Target")
_Extents = SupportsIndex | Sequence[SupportsIndex]
_Index = SupportsIndex | slice | EllipsisType | None
_Value = SupportsIndex | SupportsFloat | complex | _HasBuffer

class _HasDlpack(Protocol):
    def __dlpack__(self, *, stream: int | None = None) -> CapsuleType: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

def _take_torch_hook(allocators: Sequence[CudaAllocator]) -> tuple[str, str]:
    """Return the names of two C functions of this module that allocate from these CudaAllocators, of which each is for
    another device. They stay for good."""

def _torch_hook_failure(name: str) -> str | None:
    """Return why the last allocation that failed did so; None if none did."""

def _run_command_line(arguments: list[bytes], program: list[bytes]) -> int:
    """Run the weir command line and return its exit status. `program` are the words that start it in a process."""

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
    leased: int
    leased_buffers: int
    leased_to: str
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

    def __reduce_ex__(self, *args: object) -> NoReturn: ...
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

    def __reduce_ex__(self, *args: object) -> NoReturn: ...
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

    def __reduce_ex__(self, *args: object) -> NoReturn: ...
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

    def __reduce_ex__(self, *args: object) -> NoReturn: ...
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

    def __reduce_ex__(self, *args: object) -> NoReturn: ...
    def __repr__(self) -> str: ...

def borrow_cuda_stream(device: Device, stream: object) -> Stream:
    """Stream over a CUDA stream that others own: an object with __cuda_stream__ (cuda.core, CuPy, PyTorch), which is kept
    as long as weir uses the stream, or a handle as int, whose stream must live that long: as long as a Stream or an Event
    of it, and memory that was allocated or used on it."""

class CudaAllocator:
    """Hands out addresses of a resource's memory in the order of CUDA streams, as cudaMallocAsync does. For the hooks
    of frameworks; weir.torch, weir.cupy, weir.numba and weir.rmm stand on it. Its end gives back what was not given
    back."""

    def __init__(self, resource: MemoryResource) -> None: ...
    def allocate(self, size: SupportsIndex, *, stream: object, alignment: SupportsIndex = 256) -> int:
        """Return the address of `size` bytes for use on a CUDA stream: a handle, or an object with __cuda_stream__. 0
        for no bytes. Raises OutOfMemory."""

    def deallocate(self, address: SupportsIndex, *, stream: object | None = None) -> None:
        """Give memory back after everything on the stream so far. None is for a stream that may be gone: then the
        stream that the memory was allocated for may use it again at once, and others after what that stream has by now.
        Work of further streams on the memory must be over."""

    @property
    def live(self) -> int:
        """number of addresses that are not given back yet"""

    @property
    def resource(self) -> MemoryResource:
        """where the memory comes from"""

class MemoryResource:
    """Source of memory. Thread-safe; its Buffers keep it alive."""

    def allocate(self, size: SupportsIndex, *, stream: Stream, alignment: SupportsIndex = 256) -> Buffer:
        """Allocate `size` bytes, usable on `stream` at once and elsewhere after waiting for a point of it. Raises
        OutOfMemory."""

    def try_allocate(self, size: SupportsIndex, *, stream: Stream, alignment: SupportsIndex = 256) -> Buffer | None:
        """As allocate, but None when memory is exhausted."""

    def allocate_tensor(
        self,
        shape: _Extents,
        dtype: object,
        *,
        stream: Stream,
        padded_shape: _Extents | None = None,
        alignment: SupportsIndex = 256,
    ) -> Tensor:
        """Allocate memory for an array, row-major, whose elements have no value yet. With `padded_shape` there is
        memory for a whole array of that shape, and the tensor is the first `shape[i]` positions along each dimension
        of it. In order of `stream` as allocate. Raises OutOfMemory, and Error for shapes that no array can have."""

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
        Counters in bytes: in_use, reserved, peak_in_use, peak_reserved; and live_buffers, allocations. Of memory that
        other processes use: leased (bytes), leased_buffers, and the part that is closed here, leased_closed (bytes),
        leased_closed_buffers. Where the driver says them, also device_budget and device_free, in bytes.
        """

    def trim(self, bytes_to_keep: SupportsIndex = 0) -> int:
        """Give back unused memory; the bytes given back."""

    def __reduce_ex__(self, *args: object) -> NoReturn: ...
    def __repr__(self) -> str: ...

def make_resource(device: Device, kind: MemoryKind | str | None = None, *, exportable: bool = False) -> MemoryResource:
    """The plain resource of one kind of memory; None is the device's default kind."""

def make_shared_resource(*, read_only_for_peers: bool = False) -> MemoryResource:
    """A resource of host memory that other processes can open. With `read_only_for_peers`, the kernel lets none of them
    ever write it."""

def current_resource(device: Device | None = None) -> MemoryResource:
    """
    The resource that this process agreed on for `device` (None: best_device()): a pool, until set_current_resource
    names another.
    """

def set_current_resource(device: Device, resource: MemoryResource | None) -> MemoryResource:
    """Make `resource` the current one of `device`, None for its pool, and return the previous one."""

class ReusePolicy(enum.Enum):
    """When a pool may give memory to a stream although its last use, on another stream, is not complete. The stream
    then waits for that use."""

    passed_only = 0
    wait_rather_than_fail = 1
    wait_rather_than_grow = 2

class Pool(MemoryResource):
    """A resource that hands out memory of another again and again without asking it. Made by make_pool. The memory of a
    closed Buffer is used again after its recorded uses. The pool lives until its last Buffer is gone."""

    def pool_stats(self) -> dict[str, int]:
        """
        What stats() has, and: cached, largest_free in bytes; counts of segments, streams, reuses (served by a thread's
        own cache), waits (of streams for memory of others), grown, given_back, moved.
        """

    def set_limit(self, bytes: SupportsIndex | None) -> None:
        """Set the most bytes that may be reserved from now on; None is no limit. Memory above it is not given back."""

    def set_reuse_policy(self, policy: ReusePolicy | str) -> None:
        """Set whether streams may wait for memory that another stream used last."""

    def set_release_threshold(self, bytes: SupportsIndex | None) -> None:
        """Set the reserved bytes above which free memory goes back by itself; None keeps everything. What is above and
        free goes back at once."""

    def dump(self) -> str:
        """Everything that the pool has at this moment, as JSON: statistics, streams, and every range of memory."""

def make_pool(
    upstream: Device | MemoryResource,
    *,
    initial_bytes: SupportsIndex = 0,
    limit: SupportsIndex | None = None,
    segment_bytes: SupportsIndex = 16777216,
    growth: float = 0.03125,
    alignment: SupportsIndex = 256,
    reuse: ReusePolicy | str = "wait_rather_than_fail",
    release_threshold: SupportsIndex | None = None,
    patience: float = 1.0,
    exportable: bool = False,
    paged: bool = True,
) -> Pool:
    """
    A pool over a resource, or over the plain resource of one of the device's kinds: one that can be paged, if there is
    one and `paged` is set, else the default kind; an exportable one for an exportable pool. Sizes are in bytes. `limit`
    bounds what is reserved; `segment_bytes` and `growth` say how much is taken at a time; `release_threshold` is the
    reserved bytes above which free memory goes back by itself; `patience` is the seconds for which an allocation waits,
    before it fails, for pending work and for closed memory that other processes still use. Raises Error
    (invalid_argument, unsupported) for options that the pool cannot have, OutOfMemory for `initial_bytes`.
    """

class LimitingResource(MemoryResource):
    """Passes requests on as long as its live Buffers have at most `limit` bytes together, as asked for. Others are
    refused with OutOfMemory. Made by make_limiting."""

    @property
    def limit(self) -> int:
        """bytes"""

    def set_limit(self, bytes: SupportsIndex) -> None:
        """Set the limit from now on. Live Buffers stay, even when they exceed it."""

def make_limiting(upstream: MemoryResource, limit: SupportsIndex) -> LimitingResource:
    """Bound the bytes that live Buffers take from `upstream` by this way."""

def make_aligned(
    upstream: MemoryResource, alignment: SupportsIndex, threshold: SupportsIndex = 0
) -> MemoryResource:
    """Let every Buffer of at least `threshold` bytes begin at a multiple of `alignment` bytes, a power of two of at
    most 1 GiB."""

def make_prefetch(upstream: MemoryResource, target: Device | None = None) -> MemoryResource:
    """Move each new Buffer of memory that migrates (CUDA managed) to `target`, a device or the host, on the allocation
    stream; None is upstream's own device. Raises Error (unsupported) for other memory."""

class DebugResource(MemoryResource):
    """Puts guards around each Buffer, poisons new and closed memory, and reports on stderr which bytes were overwritten
    outside of a Buffer or after its end. Made by make_debug."""

    @property
    def violations(self) -> int:
        """count of damaged places found so far: the guard before a Buffer, the guard after it, and its memory while
        that is kept"""

def make_debug(
    upstream: MemoryResource,
    *,
    guard_bytes: SupportsIndex = 256,
    poison: bool = True,
    quarantine_bytes: SupportsIndex = 16777216,
) -> DebugResource:
    """Find writes outside of Buffers and to closed ones. `guard_bytes` go before and after each Buffer; `poison` fills
    new Buffers with 0xcd and kept ones with 0xdd; closed memory is kept from upstream up to `quarantine_bytes`."""

class LoggingResource(MemoryResource):
    """Writes a line for every operation, for `weir replay` and to read (docs/traces.md). Made by make_logging. The last
    lines are written when the last handle and the last Buffer are gone."""

    def flush(self) -> None:
        """Write the collected lines, and wait until they are written."""

def make_logging(
    upstream: MemoryResource, path: str | os.PathLike[str], *, buffer_bytes: SupportsIndex = 65536
) -> LoggingResource:
    """Write a trace of what goes through to the file `path`, which is created or emptied. Lines are collected up to
    `buffer_bytes`; with 0 each is written at once. Raises OSError when the file cannot be opened. A close may write with
    the GIL, so read a FIFO in another process."""

class Counter:
    """One figure over a period."""

    @property
    def current(self) -> int:
        """what is live now; in a scope less than 0 when more was closed than was allocated since it began"""

    @property
    def peak(self) -> int:
        """the most that `current` was"""

    @property
    def total(self) -> int:
        """everything that was allocated, live or not"""

    def __reduce_ex__(self, *args: object) -> NoReturn: ...
    def __repr__(self) -> str: ...

class AllocationStatistics:
    """What a StatisticsResource counts."""

    @property
    def bytes(self) -> Counter:
        """as asked for"""

    @property
    def buffers(self) -> Counter: ...

    @property
    def refused(self) -> int:
        """count of requests that ended in exhaustion"""

    def __reduce_ex__(self, *args: object) -> NoReturn: ...
    def __repr__(self) -> str: ...

class StatisticsResource(MemoryResource):
    """Counts exactly what goes through it, for all threads together. Made by make_statistics."""

    def statistics(self) -> AllocationStatistics:
        """The figures since the last push_counters() that was not popped, else since the resource was made."""

    def push_counters(self) -> None:
        """Begin a scope inside the current scope."""

    def pop_counters(self) -> AllocationStatistics:
        """End the scope that was pushed last and return its figures. Raises Error (invalid_argument) when there is
        none. Threads that push and pop side by side end each other's scopes: they should use StatisticsScope."""

class StatisticsScope:
    """The figures of a part of the time, from when the object is made until `with` or end() ends it. Scopes may overlap
    in any way, and end on any thread."""

    def __init__(self, resource: StatisticsResource) -> None: ...

    def statistics(self) -> AllocationStatistics:
        """The figures so far, or those of the whole scope once it has ended."""

    def end(self) -> None:
        """End the scope. Does nothing the second time."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...

def make_statistics(upstream: MemoryResource) -> StatisticsResource:
    """Count the bytes and Buffers that go through: now, at most, in total, and what is refused."""

class TrackedBuffer:
    """A live Buffer of a TrackingResource. str() is a line about it."""

    @property
    def number(self) -> int:
        """counts the resource's allocations, from 1"""

    @property
    def size(self) -> int:
        """bytes, as asked for"""

    @property
    def alignment(self) -> int:
        """in bytes"""

    @property
    def stream(self) -> int:
        """Stream.id of the allocation stream"""

    @property
    def stack(self) -> list[int]:
        """return addresses of native code, innermost first; empty unless `stack_depth` asked for them"""

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

class TrackingResource(MemoryResource):
    """Remembers each Buffer until its last owner is gone; slices, Tensors and exports count as the same Buffer. When
    the last handle goes away while Buffers are live, these are reported on stderr. Made by make_tracking."""

    def outstanding(self) -> list[TrackedBuffer]:
        """The live Buffers, oldest first. Buffers of zero bytes are not among them."""

def make_tracking(
    upstream: MemoryResource, *, stack_depth: SupportsIndex = 0, report_leaks: bool = True
) -> TrackingResource:
    """Remember which Buffers are live. `stack_depth` return addresses of native code are kept for each, which costs far
    more than the allocation."""

class AllocationFailure:
    """A request that upstream could not serve, and what upstream said: bytes, 0 where unknown."""

    @property
    def size(self) -> int:
        """bytes, as asked for"""

    @property
    def alignment(self) -> int:
        """in bytes"""

    @property
    def stream(self) -> Stream:
        """the allocation stream"""

    @property
    def attempt(self) -> int:
        """1 at the first call for this request"""

    @property
    def in_use(self) -> int: ...
    @property
    def reserved(self) -> int: ...
    @property
    def limit(self) -> int: ...
    @property
    def largest_free(self) -> int: ...
    @property
    def device_free(self) -> int: ...
    @property
    def device(self) -> str: ...

    @property
    def resource(self) -> str:
        """the resource that refused"""

    @property
    def call(self) -> str:
        """the driver call that refused; empty when the driver was not asked"""

    def __repr__(self) -> str: ...

def make_failure_callback(
    upstream: MemoryResource, callback: Callable[[AllocationFailure], bool], *, max_attempts: SupportsIndex = 16
) -> MemoryResource:
    """
    When `upstream` is out of memory, call `callback`, and ask upstream again if it returns something true; at most
    `max_attempts` times for one request. It runs on the thread that wants the memory, and on several threads at once;
    it may close, allocate and trim. An exception of it reaches the caller of allocate. The resource keeps `callback`
    alive until the interpreter ends, and the garbage collector cannot see that: let it refer weakly to the resource and
    to Buffers of it.
    """

def make_callback_resource(
    device: Device,
    allocate: Callable[[int, Stream], int | None],
    deallocate: Callable[[int, int], object],
    *,
    name: str = "callback",
    host_accessible: bool | None = None,
    device_accessible: bool = True,
) -> MemoryResource:
    """
    Resource over two functions. `allocate(size, stream)` returns the address of `size` (> 0) bytes, a multiple of 256,
    that may be used on `stream` at once. None or MemoryError says that memory is exhausted; any other exception reaches
    the caller of allocate. `deallocate(address, size)` takes the memory back when no use of it is left on any stream.
    It runs soon after that on a thread that has the GIL, and its exceptions go to sys.unraisablehook. Both may
    run on several threads at once, and none of weir's locks is held meanwhile. The host reaches the memory if
    `host_accessible` says so; None says so for the host's own. Each Buffer costs a call of each function, so put a pool
    over this. The resource keeps the functions alive until the interpreter ends, and the garbage collector cannot see
    that: let them refer weakly to the resource and to Buffers of it. Memory that lives longer than the interpreter is
    left to the end of the process.
    """

class PaddingNeeds:
    """What the users of one dimension of an array ask of its padded extent, in elements. A value: each user states its
    needs, and `unite` makes of them the needs of all."""

    def __init__(
        self,
        size: SupportsIndex,
        *,
        at_least: SupportsIndex = 0,
        multiple_of: SupportsIndex = 1,
        aligned_to: SupportsIndex = 1,
        exact: bool = False,
    ) -> None:
        """`size` elements are used. The padded extent is `at_least` so large and a multiple of `multiple_of`; a
        multiple of `aligned_to` is a wish. `exact` forbids padding. Negative numbers, and multiples below 1, are refused
        by extent() and unite()."""

    @property
    def size(self) -> int:
        """of what is used; the same for all users"""

    @property
    def at_least(self) -> int:
        """the padded extent is not smaller"""

    @property
    def multiple_of(self) -> int:
        """the padded extent is a multiple"""

    @property
    def aligned_to(self) -> int:
        """a wish: other extents are still allowed"""

    @property
    def exact(self) -> bool:
        """padding is not allowed"""

    def unite(self, other: PaddingNeeds) -> PaddingNeeds:
        """The needs of both users. Raises Error when their sizes differ, and when no padded extent suits both."""

    def extent(self) -> int:
        """The padded extent to choose: the smallest one that is allowed, rounded up to `aligned_to` unless that is
        larger than the extent itself. Raises Error when no extent is allowed."""

    def allows(self, padded: SupportsIndex) -> bool:
        """Whether an array that is padded to `padded` elements suits all users."""

    def __eq__(self, other: object) -> bool: ...

    def __hash__(self) -> int: ...

    def __getstate__(self) -> tuple[int, int, int, int, bool]: ...
    def __setstate__(self, state: tuple[int, int, int, int, bool]) -> None: ...
    def __repr__(self) -> str: ...

def padded_shape(dimensions: Sequence[PaddingNeeds]) -> tuple[int, ...]:
    """The padded shape to choose for an array with these dimensions, for allocate_tensor and Buffer.view. Raises Error
    when no extent is allowed."""

def elements_per_line(dtype: object, bytes: SupportsIndex = 128) -> int:
    """The smallest number of elements whose bytes are a multiple of `bytes`: for `aligned_to` of the innermost
    dimension, so that every row begins on a line of that many bytes. Raises Error for 0 bytes."""

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
    def __array__(self, dtype: object = None, copy: bool | None = None) -> Any:
        """NumPy's array over memory that the host reaches, for numpy.asarray; other memory raises TypeError."""

    def __jax_array__(self) -> Any:
        """JAX's array over the memory, for jax.numpy.asarray."""


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
    def padded_shape(self) -> tuple[int, ...] | None:
        """the shape of the row-major array that this is a corner of, as the strides tell it; None for other layouts.
        Its first extent is that of `shape`"""

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
    def __bool__(self) -> bool:
        """True, also without elements: `if` tells a Tensor from None."""

    def __iter__(self) -> Iterator[Tensor]:
        """The parts along the first dimension, one after the other."""

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

    @overload
    def copy_to(self, dst: None = None, *, stream: Stream) -> Tensor:
        """Enqueue a copy to a new tensor without gaps from this one's resource."""

    @overload
    def copy_to(self, dst: _Target, *, stream: Stream) -> _Target:
        """Enqueue a copy of all elements to those of a tensor of the same shape and element type, which may lie
        anywhere and in any way. A writable array of the host (buffer protocol, or __dlpack__), with any strides, is
        taken like a tensor: read it once `stream` has passed the copy; until then it stays locked. Returns the
        destination."""

    def copy_from(self, src: Tensor | Buffer | _HasBuffer | _HasDlpack, *, stream: Stream) -> None:
        """Enqueue a copy of all elements of `src`, a tensor of the same shape and element type, to those of this one.
        An array of the host (buffer protocol, or __dlpack__), with any strides, has been read when the call returns. To
        leave out the copy that this may need, pass from_dlpack(array), and do not change the array before the copy is
        complete."""

    def fill(self, value: _Value, *, stream: Stream, over_gaps: bool = False) -> None:
        """Enqueue a fill of all elements. The value is a number or bool that fits into the element type, a scalar of
        NumPy, or the bytes of one element; floats are no integers. Gaps and padding stay as they are; with `over_gaps`
        everything from the first element to the last is written, which is faster. Raises TypeError and ValueError for
        other values, Error for elements that share memory and for read-only memory."""

    def zero(self, *, stream: Stream, over_gaps: bool = False) -> None:
        """Enqueue a fill of all elements, of any type, with zero bytes. Otherwise like fill."""

    def empty_like(self, resource: MemoryResource | None = None, *, stream: Stream) -> Tensor:
        """A tensor of the same shape, element type and padding, over new memory of `resource`, or of this tensor's own
        resource. The elements have no value yet. Raises OutOfMemory."""

    def empty_like_host(self, *, stream: Stream) -> Tensor:
        """The same in the host memory that copies from and to this tensor are fastest with. Making such memory is slow:
        keep the tensor, or give empty_like a pool of that kind."""

    def __setitem__(self, key: object, value: object) -> NoReturn:
        """Raises TypeError: an assignment names no stream. Use fill and copy_from of a part."""

    def __reduce_ex__(self, *args: object) -> NoReturn: ...
    def __repr__(self) -> str: ...

def from_dlpack(obj: object, *, stream: Stream | None = None) -> Tensor:
    """Take over a tensor of another framework without a copy. It may be used on `stream` at once; None is a stream of
    the host that the thread keeps, or CUDA's legacy default stream. Tensors of DLPack before 1.0 come in read-only,
    because they cannot say that they may be written."""

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
    def __array__(self, dtype: object = None, copy: bool | None = None) -> Any:
        """NumPy's array over memory that the host reaches, for numpy.asarray; other memory raises TypeError."""

    def __jax_array__(self) -> Any:
        """JAX's array over the memory, for jax.numpy.asarray."""


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
        returns. Without `size` both sides must be equally long from the offsets on. When memory runs out or a driver
        refuses a part of the copy, other parts may be written."""

    def fill(
        self,
        value: _Value,
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
        self,
        dtype: object = "uint8",
        shape: _Extents | None = None,
        *,
        padded_shape: _Extents | None = None,
        byte_offset: SupportsIndex = 0,
    ) -> Tensor:
        """Array over this memory, row-major; all of it without a shape. With `padded_shape`, which must fit the memory,
        it is the first `shape[i]` positions along each dimension of an array of that shape; else it has no gaps. Raises
        Error where it does not fit."""

    def ipc_descriptor(self, *, stream: Stream, read_only: bool = False) -> ipc.Descriptor:
        """Descriptor for another process, which is ordered after `stream` and every recorded use. With `read_only`, that
        process cannot write; memory of Vulkan cannot be shared so."""

    def close(self, stream: Stream | None = None) -> None:
        """Drop this owner. The memory is reused after all recorded uses, and after `stream` if given. Never
        blocks."""

    def __len__(self) -> int:
        """bytes"""

    def __bool__(self) -> bool:
        """True, also for zero bytes: `if` tells a Buffer from None."""

    def __bytes__(self) -> bytes:
        """A copy of the bytes, once everything that uses them is complete. Blocks until then."""

    def __reduce_ex__(self, *args: object) -> NoReturn: ...
    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @staticmethod
    def from_handle(
        device: Device, address: SupportsIndex, size: SupportsIndex, owner: object, *, stream: Stream
    ) -> Buffer:
        """Buffer over memory that `owner` keeps alive; it is dropped when all uses are complete."""

class DeviceVector:
    """Array of one dimension whose size changes in stream order. Every call takes place in order of the stream that it
    names, and does not wait; calls on different streams need waits between them. Growth allocates new memory and copies
    the elements; the old memory is reused after every recorded use. New elements have no value until something writes
    them. A call that raises has changed no element."""

    def __init__(
        self, resource: MemoryResource, dtype: object = "uint8", size: SupportsIndex = 0, *, stream: Stream
    ) -> None:
        """Allocate `size` elements from `resource`. Raises OutOfMemory; ValueError for what is no element type."""

    @property
    def size(self) -> int:
        """elements; 0 when closed"""

    @property
    def capacity(self) -> int:
        """elements that there is memory for; 0 when closed"""

    @property
    def dtype(self) -> str:
        """for example 'float32'"""

    @property
    def itemsize(self) -> int: ...

    @property
    def tensor(self) -> Tensor:
        """the elements that there are now, in the same memory. It keeps to that memory when the vector grows"""

    @property
    def buffer(self) -> Buffer:
        """another owner of the memory of all `capacity` elements"""

    @property
    def device(self) -> Device: ...
    @property
    def is_closed(self) -> bool: ...

    def push(self, values: object, *, stream: Stream) -> None:
        """Add elements at the end: a Tensor, or an array of the host (buffer protocol, or __dlpack__), of one dimension
        and of the vector's type. An array of the host has been read when the call returns. Where there is too little
        memory, twice as much is allocated, or just enough if there is no more."""

    def append(self, value: object, *, stream: Stream) -> None:
        """Add one element at the end: a number that fits, a scalar of NumPy, or the element's bytes."""

    def resize(self, size: SupportsIndex, *, stream: Stream) -> None:
        """Have `size` elements. The first ones stay. Memory is allocated only when there is too little, and then for
        exactly `size` elements."""

    def reserve(self, capacity: SupportsIndex, *, stream: Stream) -> None:
        """Have memory for at least `capacity` elements."""

    def shrink_to_fit(self, *, stream: Stream) -> None:
        """Have memory for no more elements than there are."""

    def clear(self, *, stream: Stream) -> None:
        """Have no elements, and keep the memory."""

    def copy_from(self, values: object, *, stream: Stream, first: SupportsIndex = 0) -> None:
        """Enqueue a copy to the elements from `first` on; of what push takes. Raises Error when there are fewer
        elements. When memory runs out or a driver refuses a part of the copy, some of these elements may be written.
        """

    @overload
    def copy_to(self, target: None = None, *, stream: Stream, first: SupportsIndex = 0) -> Tensor: ...
    @overload
    def copy_to(self, target: _Target, *, stream: Stream, first: SupportsIndex = 0) -> _Target:
        """Enqueue a copy of the elements from `first` on to a Tensor or a writable array of the host, which stays locked
        until `stream` has passed the copy; None is a new Tensor of all of them. Returns the target. Raises Error when
        there are fewer elements."""

    def set_element(self, index: SupportsIndex, value: object, *, stream: Stream) -> None:
        """Enqueue a write of one element: a number that fits, a scalar of NumPy, or the element's bytes."""

    def wait_for_element(self, index: SupportsIndex, *, stream: Stream) -> Any:
        """One element, as a scalar of NumPy, as it is after everything on `stream` so far. Blocks until then."""

    def close(self, stream: Stream | None = None) -> None:
        """Give the memory back, after all recorded uses, and after `stream` if given. Never blocks."""

    def __len__(self) -> int: ...
    def __bool__(self) -> bool:
        """True, also without elements: `if` tells a DeviceVector from None."""

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Any:
        """NumPy's array over the memory of `tensor`, for numpy.asarray; memory that the host cannot reach raises
        TypeError."""

    def __jax_array__(self) -> Any:
        """JAX's array over the memory of `tensor`, for jax.numpy.asarray."""

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType:
        """DLPack capsule over `tensor`."""

    def __dlpack_device__(self) -> tuple[int, int]:
        """(DLDeviceType, device id) of the memory."""

    def __reduce_ex__(self, *args: object) -> NoReturn: ...
    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def __repr__(self) -> str: ...

class HostMirror:
    """A Buffer and host memory of the same size beside it, brought in step by two calls. Where the host reaches the
    memory itself at full speed, both sides are one, and the syncs do nothing: the same program is right in both
    cases."""

    @overload
    def __init__(self, device: Buffer, *, stream: Stream) -> None:
        """Become another owner of `device`, and allocate host memory of the kind that copies with it are fastest with,
        in order of `stream`. Nothing is copied. Raises OutOfMemory, and Error for memory that is read-only."""

    @overload
    def __init__(self, device: Buffer, host: Buffer) -> None:
        """Become another owner of both, which stay two memories. Raises Error when their sizes differ, when they are
        the same memory or overlap, when the host cannot reach `host`, and when either is read-only."""

    @property
    def device(self) -> Buffer:
        """another owner of the device's side, for kernels, copies and views"""

    @property
    def host(self) -> Buffer:
        """another owner of the host's side"""

    @property
    def size(self) -> int:
        """bytes of each side; 0 when closed"""

    @property
    def is_one_memory(self) -> bool:
        """whether both sides are the same bytes. The host must then not write while the device uses them"""

    @property
    def is_closed(self) -> bool: ...

    def sync_to_device(
        self, *, stream: Stream, offset: SupportsIndex = 0, size: SupportsIndex | None = None
    ) -> None:
        """Enqueue a copy of `size` bytes from `offset` on, or of all, from the host's side to the device's. The host's
        side is read when `stream` gets there: leave it alone until then."""

    def sync_to_host(self, *, stream: Stream, offset: SupportsIndex = 0, size: SupportsIndex | None = None) -> None:
        """The same in the other direction. The host sees the bytes once `stream` has passed this point: wait before
        reading them, or call array(), which waits."""

    def array(self, dtype: object = "uint8", shape: _Extents | None = None) -> Any:
        """The host's side as a writable numpy.ndarray, without a copy; all of it without a shape. Blocks until every
        use of the host's side so far is complete. An array that is kept sees later syncs once their stream has passed
        them, and keeps the memory after close()."""

    def close(self) -> None:
        """Drop both owners. The memory is reused after all recorded uses. Never blocks."""

    def __reduce_ex__(self, *args: object) -> NoReturn: ...
    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def __repr__(self) -> str: ...

class MirroredBuffer:
    """One logical buffer with a copy for each of several streams, of one device or many. Each copy is written and read
    in order of its own stream. Nothing keeps the copies equal but write() and broadcast(). Indices are those of the
    copies, from 0; others raise Error."""

    def __init__(
        self, size: SupportsIndex, streams: Sequence[Stream], resources: Sequence[MemoryResource] | None = None
    ) -> None:
        """Allocate `size` bytes for each stream, in its order, from the resource at the same place of `resources`; None
        is the default kind of each stream's device. Raises OutOfMemory, and Error without a stream."""

    @property
    def size(self) -> int:
        """bytes of each copy; 0 when closed"""

    @property
    def is_closed(self) -> bool: ...

    def copy(self, index: SupportsIndex) -> Buffer:
        """Another owner of one copy, for kernels, copies and views."""

    def stream(self, index: SupportsIndex) -> Stream:
        """The stream that orders a copy."""

    def any(self) -> int:
        """The index of a copy to work on: one whose stream has nothing pending, else the copies in turn."""

    def write(self, data: _HasBuffer, index: SupportsIndex | None = None) -> None:
        """Enqueue a write of one copy, or of all, each on its own stream. `data` is an object with the buffer protocol
        and as many bytes as a copy; it has been read when the call returns."""

    @overload
    def read(self, index: None = None) -> list[bytes]:
        """The bytes of all copies. Blocks until their streams have passed the reads."""

    @overload
    def read(self, index: SupportsIndex) -> bytes:
        """The bytes of one copy. Blocks until its stream has passed the read."""

    def read_into(self, target: _Target, index: SupportsIndex | None = None) -> _Target:
        """Enqueue a read of one copy, or of all, one behind the other, into a writable object with the buffer protocol
        and as many bytes. It stays locked until the streams have passed the reads. Returns the target."""

    def broadcast(self, index: SupportsIndex) -> None:
        """Enqueue a copy of one copy to all others, each on its own stream, after everything on stream(index) so
        far."""

    def synchronize(self, timeout: float | None = None) -> bool:
        """Block until everything put on all streams so far is complete: True, or False when `timeout` seconds passed
        first. The work then goes on."""

    def close(self) -> None:
        """Drop all copies. The memory is reused after all recorded uses. Never blocks."""

    def __len__(self) -> int:
        """copies"""

    def __bool__(self) -> bool:
        """True: `if` tells a MirroredBuffer from None."""

    def __reduce_ex__(self, *args: object) -> NoReturn: ...
    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def __repr__(self) -> str: ...
