# SPDX-License-Identifier: Apache-2.0

from collections.abc import Sequence
from types import TracebackType
from typing import Protocol

from typing_extensions import Self

from ._weir import Buffer, Stream, Tensor

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
        self, buffer: Buffer, *, stream: Stream, payload: bytes = b"", timeout: float | None = None
    ) -> None:
        """Lend `buffer` to the peer, with up to 256 bytes beside it. The peer's stream waits for what was put on
        `stream`. `timeout` in seconds; Ctrl-C ends the wait."""

    def send_all(
        self, parcels: Sequence[tuple[Buffer, bytes]], *, stream: Stream, timeout: float | None = None
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

    def __init__(self, path: str, name: str, *, timeout: float = 10.0, other_users: bool = False) -> None:
        """Connect to the holder at `path`, to write the set `name`. `timeout` in seconds. Raises Error: peer_gone when
        no holder is there."""

    def commit(self, tensors: dict[str, Tensor], *, stream: Stream, timeout: float | None = None) -> int:
        """Make this dict of tensors the next epoch of the set, as a whole, once all work on `stream` and on the tensors
        is complete. Return the epoch. The tensors may be closed then, and their memory must not be written any more.
        `timeout` in seconds. Raises Error: unsupported for memory that was not made exportable, out_of_memory when the
        holder is full, peer_gone, timed_out."""

    def remove(self, *, timeout: float | None = None) -> None:
        """Take the set out of the holder. Readers keep what they have."""

class SetReader:
    """Gets a named set of tensors from a holder (`weir hold PATH`)."""

    def __init__(self, path: str, name: str, *, timeout: float = 10.0, other_users: bool = False) -> None:
        """Connect to the holder at `path`, to read the set `name`, which need not exist yet. `timeout` in seconds."""

    def open(
        self, *, stream: Stream, timeout: float | None = None, newer_than: int = 0
    ) -> tuple[int, dict[str, Tensor]]:
        """Return (epoch, dict of tensors) of the newest epoch, once that is greater than `newer_than`. The tensors are
        read-only and usable on `stream` at once. `timeout` in seconds; Ctrl-C ends the wait. Raises Error: timed_out,
        peer_gone, corrupt_descriptor."""

def send(socket: int | _HasFileno, descriptor: Descriptor) -> None:
    """Send over a connected Unix-domain socket, in one message."""

def receive(socket: int | _HasFileno, timeout: float | None = None) -> Descriptor:
    """Receive what send() sent; `timeout` in seconds. Ctrl-C ends the wait. Raises Error: timed_out, peer_gone when the
    other end is closed, corrupt_descriptor for what is no descriptor."""

def open(descriptor: Descriptor, *, stream: Stream) -> Buffer:
    """The memory that `descriptor` names, usable on `stream` at once. Both processes see each other's writes."""
