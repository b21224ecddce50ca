# SPDX-License-Identifier: Apache-2.0

import enum
import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Protocol, SupportsIndex

from typing_extensions import Self

from ._weir import Buffer, MemoryResource, Stream, Tensor

class _HasFileno(Protocol):
    def fileno(self) -> int: ...

class Descriptor:
    """Names a Buffer for another process: bytes, and file descriptors beside."""

    def __init__(self, data: bytes, fds: Sequence[int]) -> None:
        """Takes duplicates of `fds`. Nothing is checked before open()."""

    @property
    def data(self) -> bytes: ...
    @property
    def fds(self) -> list[int]:
        """Owned by the Descriptor."""

    def close(self) -> None:
        """Close the files now. open() and send() refuse the Descriptor afterwards."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...

class ChannelStats:
    """What a channel holds at a moment."""

    @property
    def lent(self) -> int:
        """Buffers that the peer has not given back."""

    @property
    def borrowed(self) -> int:
        """Buffers of the peer that are not closed here."""

    @property
    def waiting(self) -> int:
        """Buffers of the peer that nobody has received yet."""

    @property
    def known(self) -> int:
        """Segments of this process that the peer was told of."""

    @property
    def opened(self) -> int:
        """Segments that the peer told of."""

    @property
    def process(self) -> int | None:
        """The id of the peer's process; None while or where it is not known."""

class Channel:
    """One end of a connection over which two processes lend each other buffers. The connection is the lease: when the
    peer's process ends, everything that it borrowed comes back."""

    def __init__(self, socket: int | _HasFileno, *, window: int = 256) -> None:
        """Speak over a connected Unix-domain socket of type SOCK_SEQPACKET, of which this takes a duplicate. The peer
        may send `window` buffers ahead."""

    @staticmethod
    def pair(*, window: int = 256) -> tuple[Channel, Channel]:
        """Two channels that are connected with each other."""

    def send(
        self,
        buffer: Buffer,
        *,
        stream: Stream,
        payload: bytes = b"",
        read_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Lend `buffer` to the peer, with up to 256 bytes beside it. The peer's stream waits for what was put on
        `stream`. With `read_only`, the peer cannot write it; memory of Vulkan cannot be lent so. `timeout` in seconds;
        Ctrl-C ends the wait."""

    def send_all(
        self,
        parcels: Sequence[tuple[Buffer, bytes]],
        *,
        stream: Stream,
        read_only: bool = False,
        timeout: float | None = None,
    ) -> int:
        """The same for a list of (buffer, payload), with as few system calls as possible. Return how many were sent:
        fewer than all only if `timeout` passed."""

    def receive(self, *, stream: Stream, timeout: float | None = None) -> tuple[Buffer, bytes]:
        """Return the next buffer that the peer sent, usable on `stream`, and its payload. `timeout` in seconds; Ctrl-C
        ends the wait. Raises Error: timed_out, peer_gone, corrupt_descriptor."""

    @property
    def stats(self) -> ChannelStats:
        """Counts of both directions."""

    def close(self) -> None:
        """Send and receive nothing any more. What was lent and borrowed stays valid."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...

class SetWriter:
    """Puts a named set of tensors into a holder (`weir hold PATH`), which keeps it when this process has ended."""

    def __init__(
        self, path: str | os.PathLike[str], name: str, *, timeout: float = 10.0, other_users: bool = False
    ) -> None:
        """Connect to the holder at `path`, to write the set `name`. `timeout` in seconds. Raises Error: peer_gone when
        no holder is there."""

    def commit(
        self,
        tensors: dict[str, Tensor] | dict[str, Buffer] | dict[str, Tensor | Buffer],
        *,
        stream: Stream,
        timeout: float | None = None,
    ) -> int:
        """Make this dict of tensors, a Buffer standing for its bytes, the next epoch of the set, as a whole, once all
        work on `stream` and on the tensors is complete. Return the epoch. Calls of several threads take turns. The
        tensors may be closed then, and their memory must not be written any more. `timeout` in seconds; Ctrl-C ends the
        wait, and the set may be committed all the same. Raises Error: unsupported for memory that was not made
        exportable, out_of_memory when the holder is full, peer_gone, timed_out."""

    def remove(self, *, timeout: float | None = None) -> None:
        """Take the set out of the holder. Readers keep what they have. `timeout` in seconds; Ctrl-C ends the wait."""

class SetReader:
    """Gets a named set of tensors from a holder (`weir hold PATH`)."""

    def __init__(
        self, path: str | os.PathLike[str], name: str, *, timeout: float = 10.0, other_users: bool = False
    ) -> None:
        """Connect to the holder at `path`, to read the set `name`, which need not exist yet. `timeout` in seconds."""

    def open(
        self, *, stream: Stream, timeout: float | None = None, newer_than: int = 0
    ) -> tuple[int, dict[str, Tensor]]:
        """Return (epoch, dict of tensors) of the newest epoch, once that is greater than `newer_than`. The tensors are
        read-only and usable on `stream` at once. `timeout` in seconds; Ctrl-C ends the wait. Raises Error: timed_out,
        peer_gone, corrupt_descriptor."""

class RingConsumerStats:
    """What one consumer of a ring has."""

    @property
    def id(self) -> int:
        """What add_consumer returned."""

    @property
    def held(self) -> int:
        """Slots that are on their way to it or held by it."""

    @property
    def waiting(self) -> int:
        """Frames that it has not been sent yet."""

    @property
    def missed(self) -> int:
        """Frames that were taken back before it was sent them."""

class RingStats:
    """What a ring's producer has at a moment."""

    @property
    def free(self) -> int:
        """Slots that acquire() can return at once."""

    @property
    def waiting(self) -> int:
        """Published frames that some consumer has not been sent yet."""

    @property
    def published(self) -> int:
        """Frames so far."""

    @property
    def dropped(self) -> int:
        """Frames that were taken back so far."""

    @property
    def consumers(self) -> list[RingConsumerStats]:
        """A RingConsumerStats for each."""

class RingProducer:
    """The end of a ring that makes frames, which several other processes read in place. The connection to each is its
    lease: when its process ends, all slots that it had are free."""

    def __init__(
        self,
        resource: MemoryResource,
        *,
        slots: int = 8,
        slot_bytes: int = 0,
        shape: SupportsIndex | Sequence[SupportsIndex] | None = None,
        dtype: object = None,
        drop_oldest: bool = False,
        per_consumer: int = 2,
        read_only: bool = False,
    ) -> None:
        """Allocate the slots from an exportable resource. With `shape` and `dtype`, frames are tensors. Without
        `drop_oldest`, acquire() waits for the slowest consumer; with it, that consumer misses frames. A consumer has at
        most `per_consumer` slots. With `read_only`, consumers cannot write them; memory of Vulkan cannot be lent so."""

    def add_consumer(self, socket: int | _HasFileno) -> int:
        """Serve the consumer at the other end of a Unix-domain socket of type SOCK_SEQPACKET, of which this takes a
        duplicate, from the next frame on. Return its number."""

    def remove_consumer(self, id: int) -> None:
        """Send nothing more to the consumer."""

    def acquire(self, *, stream: Stream, timeout: float | None = None) -> Any:
        """Return a free slot, usable on `stream`: a Tensor if the ring has a shape, else a Buffer. What is put on
        `stream` until the slot is published or closed counts as a use of it. `timeout` in seconds; Ctrl-C ends the
        wait. Raises Error: timed_out, closed."""

    def publish(self, slot: Buffer | Tensor, *, stream: Stream, payload: bytes = b"") -> int:
        """Publish a slot as the next frame, with up to 248 bytes beside it, and close it here. Return its number. The
        slot is used again once consumers, and arrays over it in this process, are gone. Never waits."""

    def publish_all(self, frames: Sequence[tuple[Buffer | Tensor, bytes]], *, stream: Stream) -> int:
        """The same for a list of (slot, payload), with as few system calls as possible. Return the first number."""

    def drain(self, timeout: float | None = None) -> bool:
        """Wait until every consumer has been sent every frame. Return False if `timeout` seconds passed first."""

    @property
    def stats(self) -> RingStats:
        """What the ring and each consumer has."""

    @property
    def slot_bytes(self) -> int:
        """Bytes of a slot."""

    def close(self) -> None:
        """Publish and send nothing any more. What consumers hold stays valid."""
class Listing:
    """One tensor under its name."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int:
        """Grows with every change that the server makes to any of its names."""

    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]:
        """In elements."""

    @property
    def nbytes(self) -> int:
        """Of the memory that a client gets."""

    @property
    def where(self) -> str:
        """Device and kind of memory, as the server calls them."""

class Change(enum.Enum):
    """What a News tells."""

    published = 0
    withdrawn = 1
    missed = 2

class News:
    """One change of a server's names. One whose version is not above that of a Listing is older than the Listing."""

    @property
    def change(self) -> Change: ...
    @property
    def tensor(self) -> Listing:
        """Of a name that was withdrawn, it has only the name and the version."""

class LeasedTo:
    """What one process uses of a resource's memory. Buffers count with all bytes."""

    @property
    def process(self) -> int | None:
        """The process id of a channel's peer; None where it is not known."""

    @property
    def buffers(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def closed_buffers(self) -> int:
        """Those that have no owner in this process any more."""

    @property
    def closed_bytes(self) -> int: ...

class Loan:
    """Tensors of one publishing that one client has."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def count(self) -> int:
        """How many times it was got and is not given back."""

    @property
    def nbytes(self) -> int:
        """Of the memory, which is the same for all of them."""

class Guest:
    """One client, as its server sees it."""

    @property
    def number(self) -> int:
        """In the order of arrival."""

    @property
    def user(self) -> int:
        """The user id, as the kernel gave it."""

    @property
    def connected(self) -> bool:
        """False for one that has left, and that still holds something."""

    @property
    def subscribed(self) -> bool:
        """The connection is that of a Subscription."""

    @property
    def loans(self) -> list[Loan]: ...

class Server:
    """Publishes tensors under names, over a Unix-domain socket at a path. A client gets the tensor itself, not a copy,
    and its connection is the lease. No client holds up another one, or a call of this class."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        users: Sequence[int] = (),
        most_clients: int = 64,
        most_names: int = 1024,
        most_name_bytes: int = 128,
        most_loans: int = 256,
        remembered: int = 256,
        patience: float = 5.0,
    ) -> None:
        """Listen at `path`. Without `users`, only processes of this user may connect. The others bound what clients can
        make the server do; `patience` is for one that says nothing, in seconds."""

    def publish(self, name: str, tensor: Tensor | Buffer, *, stream: Stream, read_only: bool = False) -> int:
        """Publish a Tensor, or all bytes of a Buffer, in place of an earlier one of that name. Clients' streams wait for
        what was put on `stream`. With `read_only`, clients cannot write it; memory of Vulkan cannot be lent so. Return
        its version."""

    def withdraw(self, name: str) -> bool:
        """Take the name away. Those who hold the tensor keep it. Return whether there was one."""

    @property
    def names(self) -> list[Listing]:
        """A Listing for each name."""

    @property
    def clients(self) -> list[Guest]:
        """A Guest for each client."""

    @property
    def path(self) -> str: ...
    def close(self) -> None:
        """Serve nobody any more, and remove the socket. What clients hold stays valid."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...

class Frame:
    """What a consumer of a ring receives. Closing it gives the slot back."""

    @property
    def buffer(self) -> Buffer:
        """Another owner of the slot."""

    @property
    def tensor(self) -> Tensor:
        """A tensor of the ring's shape over the slot."""

    @property
    def sequence(self) -> int:
        """Number of the frame, counted by the producer."""

    @property
    def missed(self) -> int:
        """Frames that this consumer missed right before this one."""

    @property
    def payload(self) -> bytes:
        """Bytes of the producer's user."""

    def close(self) -> None:
        """Drop this owner of the slot, which goes back once buffers, tensors and arrays over it are gone, too."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...

class RingConsumer:
    """An end of a ring that receives frames. One thread at a time may call next()."""

    def __init__(self, socket: int | _HasFileno, *, ahead: int = 4) -> None:
        """Speak over a socket, of which this takes a duplicate. The producer may send `ahead` frames before they are
        asked for."""

    def open(self, *, stream: Stream, timeout: float | None = None) -> None:
        """Open the ring's memory, which the first next() does otherwise."""

    def next(self, *, stream: Stream, timeout: float | None = None) -> Frame:
        """Return the next frame, usable on `stream`. `timeout` in seconds; Ctrl-C ends the wait. Raises Error:
        timed_out, peer_gone, corrupt_descriptor."""

    def close(self) -> None:
        """Receive nothing any more. Frames that are held stay valid."""
class Subscription:
    """A stream of news about names."""

    def next(self, timeout: float | None = None) -> News:
        """Return the next News, in order. `timeout` in seconds; Ctrl-C ends the wait. Raises Error: timed_out,
        peer_gone."""

class Client:
    """A connection to a Server."""

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 5.0) -> None:
        """Connect to the server at `path`. All time limits are in seconds. Ctrl-C ends every wait."""

    def list(self, pattern: str = "*", *, timeout: float = 5.0) -> Sequence[Listing]:
        """A Listing for each name that is `pattern`, or begins with what stands before the '*' at its end."""

    def get(self, name: str, *, stream: Stream, timeout: float = 5.0) -> Tensor:
        """Return the tensor of that name: the server's memory, usable on `stream`. It stays valid until it is closed."""

    def subscribe(self, pattern: str = "*", *, timeout: float = 5.0) -> Subscription:
        """Hear of all changes from now on to names that match `pattern`."""

    def guests(self, *, timeout: float = 5.0) -> Sequence[Guest]:
        """Return who is connected to the server, and what each holds."""

    def close(self) -> None:
        """Ask nothing any more. Tensors that were got stay valid."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...

def leased_to(resource: MemoryResource) -> list[LeasedTo]:
    """Which processes use memory of `resource` at this moment, the one with the most bytes first."""

def wait_for_returns(resource: MemoryResource, *, most_bytes: SupportsIndex = 0, timeout: float | None = None) -> bool:
    """Wait until other processes use at most `most_bytes` of the resource's memory; False when `timeout`, in seconds, has
    passed. Ctrl-C ends the wait."""

def send(socket: int | _HasFileno, descriptor: Descriptor, timeout: float | None = None) -> None:
    """Send over a connected Unix-domain socket, in one message. Waits while the socket has no room; `timeout` in seconds.
    Ctrl-C ends the wait. Close a socket of type SOCK_STREAM when this raises: part of the message may be sent. Raises
    Error: timed_out, peer_gone."""

def receive(socket: int | _HasFileno, timeout: float | None = None) -> Descriptor:
    """Receive what send() sent; `timeout` in seconds. Ctrl-C ends the wait. Raises Error: timed_out, peer_gone when the
    other end is closed, corrupt_descriptor for what is no descriptor."""

def open(descriptor: Descriptor, *, stream: Stream) -> Buffer:
    """The memory that `descriptor` names, usable on `stream` at once. Both processes see each other's writes."""
