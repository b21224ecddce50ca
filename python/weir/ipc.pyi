# SPDX-License-Identifier: Apache-2.0

from collections.abc import Sequence
from types import TracebackType
from typing import Protocol

from typing_extensions import Self

from ._weir import Buffer, Stream

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

def send(socket: int | _HasFileno, descriptor: Descriptor) -> None:
    """Send over a connected Unix-domain socket, in one message."""

def receive(socket: int | _HasFileno, timeout: float | None = None) -> Descriptor:
    """Receive what send() sent; `timeout` in seconds. Ctrl-C ends the wait. Raises Error: timed_out, peer_gone when the
    other end is closed, corrupt_descriptor for what is no descriptor."""

def open(descriptor: Descriptor, *, stream: Stream) -> Buffer:
    """The memory that `descriptor` names, usable on `stream` at once. Both processes see each other's writes."""
