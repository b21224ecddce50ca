# SPDX-License-Identifier: Apache-2.0
"""A buffer and its copy on the host, brought in step by two calls."""

import threading

import numpy as np
import pytest

import weir


def test_there_and_back(memory):
    buffer, stream = memory.filled(64, 1), memory.stream
    with weir.HostMirror(buffer, stream=stream) as mirror:
        assert mirror.size == 64 and mirror.host.is_host_accessible
        mirror.sync_to_host(stream=stream)
        array = mirror.array("int32", (4, 4))
        assert array.shape == (4, 4) and array.dtype == np.int32 and (array == 0x01010101).all()
        array[...] = np.arange(16).reshape(4, 4)
        mirror.sync_to_device(stream=stream)
        assert memory.bytes_of(buffer) == np.arange(16, dtype="int32").tobytes()
        assert memory.bytes_of(mirror.device) == memory.bytes_of(buffer)
    assert mirror.is_closed and mirror.size == 0
    assert (array == np.arange(16).reshape(4, 4)).all(), "it owns the memory"
    assert memory.bytes_of(buffer)[:4] == b"\0\0\0\0", "the buffer that was given is still an owner"


def test_a_part_alone(memory):
    buffer, stream = memory.filled(16, 1), memory.stream
    mirror = weir.HostMirror(buffer, weir.make_resource(weir.host_device()).allocate(16, stream=stream))
    assert not mirror.is_one_memory
    array = mirror.array()
    array[...] = 7
    mirror.sync_to_device(stream=stream, offset=np.int8(4), size=8)
    assert memory.bytes_of(buffer) == b"\1" * 4 + b"\7" * 8 + b"\1" * 4
    buffer.fill(9, stream=stream)
    mirror.sync_to_host(stream=stream, offset=12)
    stream.synchronize()
    assert array.tobytes() == b"\7" * 12 + b"\11" * 4


def test_one_memory(memory):
    buffer = memory.filled(16, 1)
    mirror = weir.HostMirror(buffer, stream=memory.stream)
    assert mirror.is_one_memory == (mirror.host.host_data == buffer.host_data != 0)
    if mirror.is_one_memory:
        mirror.array()[...] = 3
        assert memory.bytes_of(buffer) == b"\3" * 16


def test_refusals(pageable):
    stream, buffer = pageable.stream, pageable.allocate(16)
    mirror = weir.HostMirror(buffer, stream=stream)
    for sync in (mirror.sync_to_device, mirror.sync_to_host):
        with pytest.raises(TypeError):
            sync()
        for offset, size in [(17, None), (8, 9), (0, 17)]:
            with pytest.raises(weir.Error) as caught:
                sync(stream=stream, offset=offset, size=size)
            assert caught.value.condition is weir.Errc.invalid_argument
        with pytest.raises(TypeError, match="offset must be an integer, not float"):
            sync(stream=stream, offset=1.0)
        with pytest.raises(ValueError, match="size must not be negative: -1"):
            sync(stream=stream, size=-1)
    with pytest.raises(weir.Error, match="16 bytes, the host's 8"):
        weir.HostMirror(buffer, pageable.allocate(8))
    for wrong in [(1,), (buffer,), (buffer, None)]:
        with pytest.raises(TypeError):
            weir.HostMirror(*wrong)
    locked = np.zeros(4, "u1")
    locked.flags.writeable = False
    with pytest.raises(weir.Error, match="read-only"):
        weir.HostMirror(weir.from_dlpack(locked).buffer, stream=stream)
    with pytest.raises(weir.Error, match="not a whole number"):
        weir.HostMirror(pageable.allocate(12), stream=stream).array("complex128")


def test_closed(pageable):
    buffer = pageable.allocate(16)
    mirror = weir.HostMirror(buffer, stream=pageable.stream)
    mirror.close()
    mirror.close()
    assert repr(mirror) == "<weir.HostMirror closed>"
    for name, call in {
        "sync_to_device": lambda: mirror.sync_to_device(stream=pageable.stream),
        "sync_to_host": lambda: mirror.sync_to_host(stream=pageable.stream),
        "array": mirror.array,
        "device": lambda: mirror.device,
        "host": lambda: mirror.host,
        "is_one_memory": lambda: mirror.is_one_memory,
    }.items():
        with pytest.raises(weir.Error, match=f"^HostMirror.{name}: the HostMirror is closed") as caught:
            call()
        assert caught.value.condition is weir.Errc.closed
    buffer.close()
    with pytest.raises(weir.Error, match="^HostMirror: device is closed"):
        weir.HostMirror(buffer, stream=pageable.stream)


def test_memory_goes_back(device_memory):
    stream = device_memory.stream
    mirror = weir.HostMirror(device_memory.allocate(64), stream=stream)
    assert not mirror.is_one_memory
    live = device_memory.resource.stats()["live_buffers"]
    mirror.close()
    stream.synchronize()
    assert device_memory.resource.stats()["live_buffers"] == live - 1


def test_closed_by_another_thread(memory):
    for _ in range(20):
        mirror = weir.HostMirror(memory.filled(4096, 1), stream=memory.stream)
        closer = threading.Thread(target=mirror.close)
        closer.start()
        try:
            while not mirror.is_closed:
                mirror.sync_to_host(stream=memory.stream)
        except weir.Error as e:
            assert e.condition is weir.Errc.closed
        closer.join()
