# SPDX-License-Identifier: Apache-2.0
"""Memory that others may only read: over channels, by name, in rings and by descriptor."""

import mmap
import os
import socket

import numpy as np
import pytest

import weir

SIZE = 4096
SHARED = weir.device("host:0")


@pytest.fixture
def stream():
    return weir.Stream(SHARED)


@pytest.fixture
def mine(stream):
    buffer = weir.make_shared_resource().allocate(SIZE, stream=stream)
    buffer.fill(7, stream=stream)
    return buffer


def expect_reader(buffer, stream):
    assert buffer.is_read_only
    array = np.from_dlpack(buffer.view("uint8"))
    assert not array.flags.writeable and (array == 7).all()
    with pytest.raises(ValueError):
        array.setflags(write=True)
    assert memoryview(buffer).readonly
    with pytest.raises(weir.Error) as raised:
        buffer.fill(1, stream=stream)
    assert raised.value.condition == weir.Errc.permission_denied


def test_channels_lend_both_ways(mine, stream):
    here, there = weir.ipc.Channel.pair()
    here.send(mine, stream=stream, read_only=True)
    here.send(mine, stream=stream)
    assert here.send_all([(mine, b"")], stream=stream, read_only=True) == 1
    reader, _ = there.receive(stream=stream, timeout=30)
    writer, _ = there.receive(stream=stream, timeout=30)
    again, _ = there.receive(stream=stream, timeout=30)
    expect_reader(reader, stream)
    expect_reader(again, stream)
    assert not writer.is_read_only and np.from_dlpack(writer.view("uint8")).flags.writeable


def test_names(mine, stream, tmp_path):
    with weir.ipc.Server(tmp_path / "server") as server:
        server.publish("tensor", mine.view("uint8", (64, 64)), stream=stream, read_only=True)
        server.publish("buffer", mine, stream=stream, read_only=True)
        server.publish("writable", mine, stream=stream)
        assert [listing.where.endswith("read-only") for listing in server.names] == [True, True, False]
        client = weir.ipc.Client(tmp_path / "server")
        for name, read_only in [("tensor", True), ("buffer", True), ("writable", False)]:
            got = client.get(name, stream=stream)
            assert got.buffer.is_read_only == read_only
            assert np.from_dlpack(got).flags.writeable != read_only


def test_rings(stream):
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ring = weir.ipc.RingProducer(weir.make_shared_resource(), shape=(SIZE,), dtype="uint8", read_only=True)
    ring.add_consumer(mine)
    slot = ring.acquire(stream=stream)
    slot.fill(7, stream=stream)
    ring.publish(slot, stream=stream)
    with weir.ipc.RingConsumer(theirs).next(stream=stream, timeout=30) as frame:
        expect_reader(frame.buffer, stream)
        assert not np.from_dlpack(frame.tensor).flags.writeable


def test_descriptors(mine, stream):
    expect_reader(weir.ipc.open(mine.ipc_descriptor(stream=stream, read_only=True), stream=stream), stream)
    assert not weir.ipc.open(mine.ipc_descriptor(stream=stream), stream=stream).is_read_only


def test_memory_that_is_sealed_for_peers(stream):
    buffer = weir.make_shared_resource(read_only_for_peers=True).allocate(SIZE, stream=stream)
    buffer.fill(7, stream=stream)
    descriptor = buffer.ipc_descriptor(stream=stream)
    file = descriptor.fds[0]
    for flags in (os.O_RDWR, os.O_RDONLY):
        with pytest.raises(OSError):
            again = os.open(f"/proc/self/fd/{file}", flags)
            try:
                mmap.mmap(again, SIZE, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
            finally:
                os.close(again)
    expect_reader(weir.ipc.open(descriptor, stream=stream), stream)


def test_where_nobody_could_enforce_it():
    devices = [device for device in weir.devices() if device.backend == "vulkan"]
    kinds = [kind for device in devices for kind in device.kinds if kind.exportable]
    if not kinds:
        pytest.skip("no Vulkan memory that can be shared")
    stream = weir.Stream(devices[0])
    buffer = weir.make_resource(devices[0], kinds[0].kind, exportable=True).allocate(SIZE, stream=stream)
    here, _ = weir.ipc.Channel.pair()
    with pytest.raises(weir.Error) as raised:
        here.send(buffer, stream=stream, read_only=True)
    assert raised.value.condition == weir.Errc.unsupported
    assert "cannot be lent for reading alone" in str(raised.value)
