# SPDX-License-Identifier: Apache-2.0
"""Who uses memory that went to other processes: statistics, errors, and the wait for its return."""

import _thread
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import weir

SIZE = 1000
WHOLE = 4 << 20


@pytest.fixture
def pool(shared_memory):
    return weir.make_pool(shared_memory.resource, limit=WHOLE, segment_bytes=WHOLE, patience=0.001, exportable=True)


def figures(stats):
    return tuple(stats[name] for name in ("leased", "leased_buffers", "leased_closed", "leased_closed_buffers"))


def test_statistics_say_who_has_what(shared_memory, pool):
    here, there = weir.ipc.Channel.pair()
    assert figures(pool.stats()) == (0, 0, 0, 0)
    buffer = pool.allocate(SIZE, stream=shared_memory.stream)
    here.send(buffer, stream=shared_memory.stream)
    assert figures(pool.stats()) == (SIZE, 1, 0, 0)
    buffer.close()
    assert figures(pool.pool_stats()) == (SIZE, 1, SIZE, 1)
    assert here.stats.process == os.getpid()
    (mine,) = weir.ipc.leased_to(pool)
    assert (mine.process, mine.buffers, mine.bytes) == (os.getpid(), 1, SIZE)
    assert (mine.closed_buffers, mine.closed_bytes) == (1, SIZE)
    (dumped,) = json.loads(pool.dump())["leased_to"]
    assert dumped == {"process": os.getpid(), "buffers": 1, "bytes": SIZE, "closed_buffers": 1, "closed_bytes": SIZE}
    assert not weir.ipc.wait_for_returns(pool, timeout=0)
    there.receive(stream=shared_memory.stream, timeout=30)[0].close()
    assert weir.ipc.wait_for_returns(pool, timeout=30)
    assert figures(pool.stats()) == (0, 0, 0, 0)


def test_nobody_knows_who_has_a_descriptor(shared_memory, pool):
    buffer = pool.allocate(SIZE, stream=shared_memory.stream)
    descriptor = buffer.ipc_descriptor(stream=shared_memory.stream)
    buffer.close()
    assert [one.process for one in weir.ipc.leased_to(pool)] == [None]
    assert json.loads(pool.dump())["leased_to"][0]["process"] is None
    assert weir.ipc.wait_for_returns(pool, most_bytes=SIZE, timeout=0)
    descriptor.close()
    assert weir.ipc.wait_for_returns(pool, timeout=30)


def test_errors_name_the_process(shared_memory, pool):
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = Path(__file__).with_name("channel_child.py")
    command = [sys.executable, str(child), str(theirs.fileno()), shared_memory.device.id, shared_memory.info.kind.name]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
    theirs.close()
    try:
        channel = weir.ipc.Channel(mine)
        mine.close()
        stream = shared_memory.stream
        with pool.allocate(SIZE, stream=stream) as first:
            channel.send(first, stream=stream, payload=b"1", timeout=60)
        channel.receive(stream=stream, timeout=60)[0].close()
        assert weir.ipc.wait_for_returns(pool, timeout=60)
        stream.synchronize()  # it waits for the child's work, for longer than the pool's patience
        process.send_signal(signal.SIGSTOP)
        with pool.allocate(WHOLE, stream=stream) as buffer:
            channel.send(buffer, stream=stream, payload=b"1", timeout=60)
        with pytest.raises(weir.OutOfMemory, match=f"1 buffer .* used by process {process.pid}") as raised:
            pool.allocate(WHOLE, stream=stream)
        assert (raised.value.leased, raised.value.leased_buffers) == (WHOLE, 1)
        assert raised.value.leased_to == f"process {process.pid}"
    finally:
        process.kill()
        process.wait()
    assert weir.ipc.wait_for_returns(pool, timeout=30)
    pool.allocate(WHOLE, stream=shared_memory.stream).close()


def test_ctrl_c_ends_the_wait(shared_memory, pool):
    here, _there = weir.ipc.Channel.pair()
    here.send(pool.allocate(SIZE, stream=shared_memory.stream), stream=shared_memory.stream)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for limit in (30, None):
            with pytest.raises(KeyboardInterrupt):
                threading.Timer(0.05, _thread.interrupt_main).start()
                weir.ipc.wait_for_returns(pool, timeout=limit)
    finally:
        signal.signal(signal.SIGINT, before)


def test_wrong_arguments(pool):
    with pytest.raises(ValueError, match="timeout"):
        weir.ipc.wait_for_returns(pool, timeout=-1)
    with pytest.raises(ValueError, match="most_bytes"):
        weir.ipc.wait_for_returns(pool, most_bytes=-1)
    with pytest.raises(TypeError):
        weir.ipc.leased_to(None)
