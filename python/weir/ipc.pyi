# SPDX-License-Identifier: Apache-2.0

from collections.abc import Sequence
from typing import Protocol

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

def send(socket: int | _HasFileno, descriptor: Descriptor) -> None:
    """Send over a connected Unix-domain socket, in one message."""

def receive(socket: int | _HasFileno, timeout: float | None = None) -> Descriptor:
    """Receive what send() sent; `timeout` in seconds."""

def open(descriptor: Descriptor, *, stream: Stream) -> Buffer:
    """The memory that `descriptor` names, usable on `stream` at once. Both processes see each other's writes."""
