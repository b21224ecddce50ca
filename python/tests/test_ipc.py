# SPDX-License-Identifier: Apache-2.0
"""weir.ipc with a second Python process: spawned, since a GPU driver may be loaded here."""

import _thread
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import weir

SIZE = 100_000


class Peer:
    """ipc_child.py at the other end of a socket pair."""

    def __init__(self):
        self.socket, theirs = socket.socketpair()
        child = Path(__file__).with_name("ipc_child.py")
        command = [sys.executable, "-X", "faulthandler", str(child), str(theirs.fileno())]
        self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()

    def answer(self):
        return self.socket.recv(200).decode()

    def end(self):
        self.socket.close()
        try:
            return self.process.wait(timeout=60)
        finally:
            self.process.kill()


@pytest.fixture
def peer():
    peer = Peer()
    yield peer
    peer.end()


def open_files():
    return len(os.listdir("/proc/self/fd"))


def settled_open_files(most):
    """Their number once there are no more than that: those of other processes are closed a moment later."""
    deadline = time.monotonic() + 30
    while open_files() > most and time.monotonic() < deadline:
        time.sleep(0.001)
    return open_files()


def test_a_second_process_changes_the_memory(shared_memory, peer):
    assert shared_memory.resource.is_exportable
    for value in (1, 2, 3):
        buffer = shared_memory.filled(SIZE, value)
        weir.ipc.send(peer.socket, buffer.ipc_descriptor(stream=shared_memory.stream))
        assert peer.answer() == f"{SIZE} bytes of {value}"
        assert shared_memory.bytes_of(buffer) == bytes([value + 100]) * SIZE


def test_a_slice_is_only_a_slice(shared_memory, peer):
    buffer = shared_memory.filled(SIZE, 7)
    part = buffer.slice(1000, 500)
    weir.ipc.send(peer.socket, part.ipc_descriptor(stream=shared_memory.stream))
    assert peer.answer() == "500 bytes of 7"
    assert shared_memory.bytes_of(buffer) == b"\7" * 1000 + bytes([107]) * 500 + b"\7" * (SIZE - 1500)


def test_the_exporter_may_close_first(shared_memory, peer):
    buffer = shared_memory.filled(SIZE, 9)
    descriptor = buffer.ipc_descriptor(stream=shared_memory.stream)
    shared_memory.stream.synchronize()
    weir.ipc.send(peer.socket, descriptor)
    buffer.close()
    assert peer.answer() == f"{SIZE} bytes of 9"


def test_descriptors_are_bytes_and_files(shared_memory):
    buffer = shared_memory.filled(SIZE, 5)
    descriptor = buffer.ipc_descriptor(stream=shared_memory.stream)
    assert len(descriptor.data) == 256
    assert descriptor.fds and all(fd >= 0 for fd in descriptor.fds)
    copy = weir.ipc.Descriptor(descriptor.data, descriptor.fds)
    assert copy.data == descriptor.data and not set(copy.fds) & set(descriptor.fds)
    for source in (descriptor, copy, descriptor):  # opening does not use it up
        mine = weir.ipc.open(source, stream=shared_memory.stream)
        assert mine.size == SIZE and mine.device == shared_memory.device
        mine.fill(6, stream=shared_memory.stream)
        assert shared_memory.bytes_of(buffer) == b"\6" * SIZE
        buffer.fill(5, stream=shared_memory.stream)


def test_nothing_is_left_open(shared_memory):
    buffer = shared_memory.filled(SIZE, 5)
    weir.ipc.open(buffer.ipc_descriptor(stream=shared_memory.stream), stream=shared_memory.stream).close()
    shared_memory.stream.synchronize()
    shared_memory.resource.trim(0)
    before = open_files()  # and those that are being closed, which are fewer than what twenty rounds could leave
    for _ in range(20):
        descriptor = buffer.ipc_descriptor(stream=shared_memory.stream)
        damaged = weir.ipc.Descriptor(bytes(256), descriptor.fds)
        with pytest.raises(weir.Error):
            weir.ipc.open(damaged, stream=shared_memory.stream)
        del descriptor, damaged
    assert settled_open_files(before) <= before


@pytest.mark.parametrize("data", [b"", b"short", bytes(255), bytes(256), bytes(257), b"\xff" * 256, random.Random(1).randbytes(256)])
def test_nonsense_is_refused(pageable, data):
    with pytest.raises(weir.Error) as raised:
        weir.ipc.open(weir.ipc.Descriptor(data, []), stream=pageable.stream)
    assert raised.value.condition == weir.Errc.corrupt_descriptor


def test_any_changed_byte_is_noticed_or_harmless(shared_memory):
    descriptor = shared_memory.filled(64, 5).ipc_descriptor(stream=shared_memory.stream)
    weir.ipc.open(descriptor, stream=shared_memory.stream).close()
    shared_memory.stream.synchronize()
    shared_memory.resource.trim(0)
    before = open_files()
    for at in range(256):
        data = bytearray(descriptor.data)
        data[at] ^= 0x81
        try:
            weir.ipc.open(weir.ipc.Descriptor(bytes(data), descriptor.fds), stream=shared_memory.stream).close()
        except (weir.Error, weir.OutOfMemory):
            pass
    shared_memory.stream.synchronize()
    shared_memory.resource.trim(0)
    assert settled_open_files(before) <= before


def test_memory_that_is_not_exportable(memory):
    with pytest.raises(weir.Error) as raised:
        memory.allocate(64).ipc_descriptor(stream=memory.stream)
    assert raised.value.condition == weir.Errc.unsupported


def test_sockets_that_do_not_deliver(shared_memory):
    here, there = socket.socketpair()
    with pytest.raises(weir.Error) as raised:
        weir.ipc.receive(here, timeout=0.01)
    assert raised.value.condition == weir.Errc.timed_out
    with pytest.raises(ValueError, match="timeout must be"):
        weir.ipc.receive(here, timeout=-1)
    with pytest.raises(TypeError):
        weir.ipc.receive("socket")
    there.close()
    with pytest.raises(weir.Error) as raised:
        weir.ipc.receive(here)
    assert raised.value.condition == weir.Errc.peer_gone
    descriptor = shared_memory.allocate(16).ipc_descriptor(stream=shared_memory.stream)
    with pytest.raises(weir.Error) as raised:
        weir.ipc.send(here, descriptor)
    assert raised.value.condition == weir.Errc.peer_gone


def test_ctrl_c_ends_a_wait_for_a_descriptor(shared_memory):
    here, there = socket.socketpair()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # programs in the background ignore it
    try:
        for limit in (30, None):
            with pytest.raises(KeyboardInterrupt):  # it may come before the wait
                threading.Timer(0.05, _thread.interrupt_main).start()
                weir.ipc.receive(here, timeout=limit)
    finally:
        signal.signal(signal.SIGINT, before)
    descriptor = shared_memory.allocate(16).ipc_descriptor(stream=shared_memory.stream)
    weir.ipc.send(there, descriptor)
    assert weir.ipc.receive(here).data == descriptor.data, "nothing was lost"


def test_ctrl_c_ends_a_wait_for_the_rest_of_a_descriptor():
    here, there = socket.socketpair()
    there.send(bytes(10))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):  # it may come before the wait
            threading.Timer(0.05, _thread.interrupt_main).start()
            weir.ipc.receive(here, timeout=30)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_SEQPACKET])
@pytest.mark.parametrize("blocks", [True, False])
def test_a_socket_that_nobody_reads(shared_memory, kind, blocks):
    here, there = socket.socketpair(socket.AF_UNIX, kind)
    there.setblocking(blocks)
    descriptor = shared_memory.allocate(16).ipc_descriptor(stream=shared_memory.stream)
    sent = 0
    with pytest.raises(weir.Error, match="no room") as raised:
        while True:
            weir.ipc.send(there, descriptor, timeout=0.01)
            sent += 1
    assert raised.value.condition == weir.Errc.timed_out
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            threading.Timer(0.05, _thread.interrupt_main).start()
            weir.ipc.send(there, descriptor)
    finally:
        signal.signal(signal.SIGINT, before)
    for _ in range(sent):
        assert weir.ipc.receive(here, timeout=30).data == descriptor.data


@pytest.mark.parametrize("limit", [None, 600])
def test_a_wait_for_a_descriptor_lets_another_thread_send_it(shared_memory, limit):
    here, there = socket.socketpair()
    descriptor = shared_memory.allocate(16).ipc_descriptor(stream=shared_memory.stream)
    sender = threading.Thread(target=lambda: weir.ipc.send(there, descriptor))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # it runs only while this thread lets it
    try:
        sender.start()
        assert weir.ipc.receive(here, timeout=limit).data == descriptor.data
    finally:
        sys.setswitchinterval(interval)
        sender.join()


def test_descriptors_close_their_files(shared_memory):
    here, there = socket.socketpair()
    with shared_memory.allocate(16).ipc_descriptor(stream=shared_memory.stream) as descriptor:
        files = {fd: identity_of(fd) for fd in descriptor.fds}
        weir.ipc.send(there, descriptor)
    with pytest.raises(KeyError), weir.ipc.receive(here) as received:
        raise KeyError
    for closed in (descriptor, received):
        closed.close()
        assert (closed.data, closed.fds) == (b"", [])
        with pytest.raises(weir.Error, match="ipc.send: the descriptor is closed") as raised:
            weir.ipc.send(there, closed)
        assert raised.value.condition == weir.Errc.closed
        with pytest.raises(weir.Error) as raised:
            weir.ipc.open(closed, stream=shared_memory.stream)
        assert raised.value.condition == weir.Errc.corrupt_descriptor
    # The numbers may be those of other files by now: of another thread's, or of what was received, which is closed a
    # moment later.
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and any(is_open(fd) and identity_of(fd) == file for fd, file in files.items()):
        time.sleep(0.001)
    assert not [fd for fd, file in files.items() if is_open(fd) and identity_of(fd) == file]


def identity_of(fd):
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def is_open(fd):
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def test_closed_files_are_refused():
    with pytest.raises(weir.Error):
        weir.ipc.Descriptor(bytes(256), [1 << 20])
