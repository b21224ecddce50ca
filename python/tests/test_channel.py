# SPDX-License-Identifier: Apache-2.0
"""weir.ipc.Channel: both ends here, and one in a second process."""

import _thread
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import weir

SIZE = 5000


def comes_back(channel):
    """What the peer gives back comes by itself."""
    deadline = time.monotonic() + 30
    while channel.stats.lent and time.monotonic() < deadline:
        time.sleep(0.001)
    return channel.stats.lent == 0


def test_a_buffer_is_lent_and_comes_back(shared_memory):
    here, there = weir.ipc.Channel.pair()
    mine = shared_memory.filled(SIZE, 7)
    here.send(mine, stream=shared_memory.stream, payload=b"seven")
    theirs, payload = there.receive(stream=shared_memory.stream, timeout=30)
    assert payload == b"seven"
    assert shared_memory.bytes_of(theirs) == b"\7" * SIZE
    assert (here.stats.lent, there.stats.borrowed, here.stats.known, there.stats.opened) == (1, 1, 1, 1)
    theirs.fill(8, stream=shared_memory.stream)
    assert shared_memory.bytes_of(mine) == b"\10" * SIZE
    theirs.close()
    assert comes_back(here)


def test_many_at_once(shared_memory):
    here, there = weir.ipc.Channel.pair()
    buffers = [shared_memory.filled(SIZE, i) for i in range(100)]
    assert here.send_all([(b, b"%d" % i) for i, b in enumerate(buffers)], stream=shared_memory.stream) == 100
    for i in range(100):
        theirs, payload = there.receive(stream=shared_memory.stream, timeout=30)
        assert payload == b"%d" % i
        assert shared_memory.bytes_of(theirs) == bytes([i]) * SIZE
        theirs.close()
    assert comes_back(here)


def test_what_nobody_has_received(shared_memory):
    here, there = weir.ipc.Channel.pair()
    buffer = shared_memory.filled(SIZE, 7)
    assert here.send_all([(buffer, b"")] * 3, stream=shared_memory.stream) == 3
    _theirs, _payload = there.receive(stream=shared_memory.stream, timeout=30)
    assert (here.stats.lent, there.stats.borrowed, there.stats.waiting) == (3, 1, 2)


def test_time_limits(shared_memory):
    here, there = weir.ipc.Channel.pair(window=2)
    buffer = shared_memory.filled(SIZE, 1)
    with pytest.raises(weir.Error) as raised:
        there.receive(stream=shared_memory.stream, timeout=0.01)
    assert raised.value.condition == weir.Errc.timed_out
    assert here.send_all([(buffer, b"")] * 3, stream=shared_memory.stream, timeout=0.01) == 2
    with pytest.raises(weir.Error) as raised:
        here.send(buffer, stream=shared_memory.stream, timeout=0.01)
    assert raised.value.condition == weir.Errc.timed_out
    for wrong in (-1, float("nan")):
        with pytest.raises(ValueError, match="timeout"):
            here.send(buffer, stream=shared_memory.stream, timeout=wrong)


@pytest.mark.parametrize("wrong", ["None", "Tensor", "Descriptor"])
def test_a_parcel_has_a_buffer(shared_memory, wrong):
    here, there = weir.ipc.Channel.pair()
    stream, buffer = shared_memory.stream, shared_memory.filled(SIZE, 1)
    objects = {"None": None, "Tensor": buffer.view(), "Descriptor": buffer.ipc_descriptor(stream=stream)}
    with pytest.raises(TypeError, match=rf"parcels\[1\]\[0\] must be a weir.Buffer, not .*{wrong}"):
        here.send_all([(buffer, b""), (objects[wrong], b"")], stream=stream)
    assert here.stats.lent == 0


def test_parcels_that_are_made_as_they_are_asked_for(shared_memory):
    class Parcels:
        def __len__(self):
            return 3

        def __getitem__(self, index):
            if index >= 3:
                raise IndexError
            return shared_memory.filled(SIZE, index), b""

    here, there = weir.ipc.Channel.pair()
    assert here.send_all(Parcels(), stream=shared_memory.stream) == 3
    for value in range(3):
        assert shared_memory.bytes_of(there.receive(stream=shared_memory.stream, timeout=30)[0]) == bytes([value]) * SIZE


def test_refusals(shared_memory):
    here, there = weir.ipc.Channel.pair()
    stream = shared_memory.stream
    buffer = shared_memory.filled(SIZE, 1)
    with pytest.raises(weir.Error, match="257 bytes") as raised:
        here.send(buffer, stream=stream, payload=bytes(257))
    assert raised.value.condition == weir.Errc.invalid_argument
    with pytest.raises(weir.Error, match="SOCK_SEQPACKET"):
        weir.ipc.Channel(socket.socketpair()[0])
    with pytest.raises(weir.Error, match="window"):
        weir.ipc.Channel.pair(window=0)
    with there:
        pass
    with pytest.raises(weir.Error) as raised:
        here.receive(stream=stream, timeout=30)
    assert raised.value.condition == weir.Errc.peer_gone
    here.close()
    with pytest.raises(weir.Error) as raised:
        here.send(buffer, stream=stream)
    assert raised.value.condition == weir.Errc.closed


def test_ctrl_c_ends_a_wait(pageable):
    here, _there = weir.ipc.Channel.pair()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for limit in (30, None):
            with pytest.raises(KeyboardInterrupt):
                threading.Timer(0.05, _thread.interrupt_main).start()
                here.receive(stream=pageable.stream, timeout=limit)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_second_process(shared_memory):
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = Path(__file__).with_name("channel_child.py")
    command = [sys.executable, str(child), str(theirs.fileno()), shared_memory.device.id,
               shared_memory.info.kind.name]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
    theirs.close()
    try:
        channel = weir.ipc.Channel(mine)
        mine.close()
        for step in range(1, 4):
            buffer = shared_memory.filled(SIZE, 10)
            channel.send(buffer, stream=shared_memory.stream, payload=b"%d" % step, timeout=60)
            back, payload = channel.receive(stream=shared_memory.stream, timeout=60)
            assert payload == b"done"
            assert shared_memory.bytes_of(buffer) == bytes([10 + step]) * SIZE
            assert shared_memory.bytes_of(back) == bytes([10 + step]) * SIZE
            back.close()
        assert comes_back(channel)
        channel.close()
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
