# SPDX-License-Identifier: Apache-2.0
"""Buffers, Tensors and Devices in messages of multiprocessing: its queues, pipes, pools and arguments of processes.

A buffer's descriptor goes into a socket pair whose far end is the one file of the message. The kernel keeps the
descriptor there, and with it the lease, until the receiver takes it out or the last copy of that end is closed.
"""

import contextlib
import multiprocessing.reduction
import os
import select
import socket
import threading
import time
import warnings
from multiprocessing import context, util

from . import _weir
from ._weir import ipc

_MOST_SECONDS = 10  # for which a process that ends waits until its messages are received
_BEFORE_SHARER = 5  # whose socket goes at 0; queues are closed at 10


class _Sent:
    """The near ends of the sockets whose messages are on their way. Each hangs up when its message is received."""

    def __init__(self):
        self._ends = {}
        self._start()
        os.register_at_fork(after_in_child=self._start)  # the messages remain the parent's
        util.register_after_fork(self, _Sent._linger_at_exit)
        self._linger_at_exit()

    def _start(self):
        self._lock = threading.Lock()
        for end in self._ends.values():
            end.close()
        self._ends = {}
        self._poll = None

    def add(self, end):
        with self._lock:
            if self._poll is None:
                self._poll = select.epoll()
            self._forget_received(0)
            self._poll.register(end, 0)  # hang-ups alone
            self._ends[end.fileno()] = end

    def count(self):
        """Return how many messages nobody has received or dropped yet."""
        with self._lock:
            if self._ends:
                self._forget_received(0)
            return len(self._ends)

    def _forget_received(self, timeout):
        files = [file for file, _ in self._poll.poll(timeout)]
        for file in self._ends.keys() & files:
            self._poll.unregister(file)
            self._ends.pop(file).close()
        return files

    def _linger_at_exit(self):
        util.Finalize(self, self._linger, exitpriority=_BEFORE_SHARER)

    def _linger(self):
        """Wait for the receivers, as long as the parent lives: what they have not received ends with this process. A
        process that multiprocessing did not start does not wait: nobody is left then to receive anything."""
        parent = multiprocessing.process.parent_process()
        if parent is None:
            return
        end = time.monotonic() + _MOST_SECONDS
        for thread in threading.enumerate():
            if thread.name == "QueueFeederThread":  # writes the last messages of a queue, then ends
                thread.join(max(0, end - time.monotonic()))
        with self._lock:
            if self._ends:
                self._poll.register(parent.sentinel, select.EPOLLIN)
            while self._ends and parent.sentinel not in self._forget_received(max(0, end - time.monotonic())):
                if time.monotonic() >= end:
                    lost = f"{len(self._ends)} messages of this process were not received within {_MOST_SECONDS} s"
                    warnings.warn(f"weir: {lost} of its end, and their memory is lost", RuntimeWarning, stacklevel=1)
                    break


_sent = _Sent()


def _pack(buffer):
    """Return what stands for the memory in a message."""
    near, far = socket.socketpair()
    with far:
        try:
            with _weir._describe(buffer) as descriptor:
                ipc.send(near, descriptor)
            _sent.add(near)
        except BaseException:
            near.close()
            raise
        # If that fails, `near` goes with the last copy of `far`.
        return multiprocessing.reduction.DupFd(_for_launch(far))


def _for_launch(far):
    """Return the file to send. A process that is being started inherits it, so it stays open as long as its Process."""
    launcher = context.get_spawning_popen()
    if launcher is None:
        return far.fileno()
    file = os.dup(far.fileno())
    util.Finalize(launcher, os.close, (file,))
    return file


@contextlib.contextmanager
def _received(packed):
    try:
        far = socket.socket(fileno=packed.detach())
    except (OSError, EOFError, multiprocessing.AuthenticationError) as error:
        _weir._gone("multiprocessing: the memory of this message is gone: the process that sent it has ended, or "
                    f"another receiver has had the message ({type(error).__name__}: {error})")
    with far:
        yield far
        with contextlib.suppress(OSError):
            far.shutdown(socket.SHUT_RDWR)  # tells the sender, also where a forked process has a copy of this end


def _open_buffer(packed):
    with _received(packed) as far, ipc.receive(far, timeout=0) as descriptor:
        return _weir._open(descriptor)


def _open_empty(device):
    return _weir._empty(device)


def _open_tensor(buffer, dtype, shape, strides, byte_offset):
    return _weir._tensor(buffer, dtype, shape, strides, byte_offset)


def _find_device(backend, uuid, sender):
    return _weir._find_device(backend, uuid, sender)


def _reduce_buffer(buffer):
    if buffer.size == 0 and not buffer.is_closed:
        return _open_empty, (buffer.device,)
    return _open_buffer, (_pack(buffer),)


def _reduce_tensor(tensor):
    return _open_tensor, (tensor.buffer, tensor.dtype, tensor.shape, tensor.strides, tensor.byte_offset)


def _reduce_device(device):
    return _find_device, (device.backend, device.uuid, f"{device.id} ({device.name})")


for _kind, _reduce in ((_weir.Buffer, _reduce_buffer), (_weir.Tensor, _reduce_tensor), (_weir.Device, _reduce_device)):
    multiprocessing.reduction.ForkingPickler.register(_kind, _reduce)
