# SPDX-License-Identifier: Apache-2.0
"""PEP 3118: memoryview, bytes, NumPy, struct over host-accessible memory."""

import io
import struct

import numpy as np
import pytest

import weir


def test_a_memoryview_is_the_memory(host_memory):
    buffer = host_memory.filled(256, 1)
    view = memoryview(buffer)
    assert (view.format, view.itemsize, view.shape, view.strides, view.nbytes) == ("B", 1, (256,), (1,), 256)
    assert view.contiguous and not view.readonly
    assert np.frombuffer(view, np.uint8).ctypes.data == buffer.host_data
    view[10:13] = b"abc"
    assert bytes(view[9:14]) == b"\1abc\1"
    assert host_memory.bytes_of(buffer)[10:13] == b"abc"


def test_pending_work_is_complete_when_the_view_is_made(host_memory):
    buffer = host_memory.allocate(8 << 20)
    for value in range(10):
        buffer.fill(value, stream=host_memory.stream)
        assert memoryview(buffer)[-1] == value


def test_a_view_is_over_its_own_bytes_alone(host_memory):
    """Also where the host and devices have to be shown what the other wrote."""
    buffer = host_memory.filled(4096, 1)
    tensor = buffer.view("uint8")
    for view_of, part, value in [(np.asarray, tensor[:512][::-1], 5), (np.from_dlpack, tensor[512:1024], 6)]:
        view = view_of(part)
        view[:] = value
        memoryview(tensor[1024:1536]).release()
        np.from_dlpack(tensor[1024:1536])
        tensor[2048:].fill(value + 2, stream=host_memory.stream)
        host_memory.stream.synchronize()
        del view
    assert host_memory.bytes_of(buffer) == b"\5" * 512 + b"\6" * 512 + b"\1" * 1024 + b"\x08" * 2048


def test_the_view_owns_the_memory(host_memory):
    before = host_memory.resource.stats()["live_buffers"]
    buffer = host_memory.filled(64, 5)
    view = memoryview(buffer)
    buffer.close()
    del buffer
    assert host_memory.resource.stats()["live_buffers"] == before + 1
    assert bytes(view) == b"\5" * 64
    view.release()
    assert host_memory.resource.stats()["live_buffers"] == before


def test_typed_views(host_memory):
    buffer = host_memory.filled(48, 0)
    view = memoryview(buffer.view("float32", (3, 4)))
    assert (view.format, view.shape, view.strides, view.ndim) == ("f", (3, 4), (16, 4), 2)
    view[2, 3] = 0.5
    assert host_memory.bytes_of(buffer)[-4:] == struct.pack("f", 0.5)
    part = memoryview(buffer.view("int16", (2,), byte_offset=44))
    assert bytes(part) == struct.pack("f", 0.5)
    assert np.asarray(buffer.view("complex64")).dtype == np.complex64


def test_strided_views():
    array = np.arange(24, dtype=np.int64).reshape(4, 6)[::2, ::3]
    tensor = weir.from_dlpack(array)
    assert memoryview(tensor).tolist() == array.tolist()
    assert np.asarray(tensor).ctypes.data == array.ctypes.data
    with pytest.raises((BufferError, ValueError), match="contiguous"):
        struct.unpack_from("q", tensor)


def test_types_without_a_format(pageable):
    with pytest.raises(BufferError, match="no format for bfloat16"):
        memoryview(pageable.allocate(16).view("bfloat16"))


def test_read_only_memory():
    array = np.arange(4)
    array.flags.writeable = False
    view = memoryview(weir.from_dlpack(array))
    assert view.readonly
    with pytest.raises((BufferError, TypeError), match="read-only|read-write"):
        io.BytesIO(b"x").readinto(weir.from_dlpack(array))


def test_zero_bytes(host_memory):
    assert bytes(host_memory.allocate(0)) == b""
    assert memoryview(host_memory.allocate(0).view("float32", (0, 3))).shape == (0, 3)


def test_memory_out_of_the_hosts_reach(device_memory):
    with pytest.raises(BufferError, match="the host cannot reach this memory"):
        memoryview(device_memory.allocate(16))


def test_weir_buffers_are_sources_for_others(host_memory):
    buffer = host_memory.filled(16, 65)
    assert b"".join([buffer, b"!"]) == b"A" * 16 + b"!"
    assert bytearray(buffer) == b"A" * 16
    assert np.frombuffer(buffer, np.uint32).tolist() == [0x41414141] * 4


def test_copies_gather_strided_sources(memory):
    array = np.arange(100, dtype=np.uint8).reshape(10, 10)[:, ::2]
    buffer = memory.allocate(50)
    buffer.copy_from(array, stream=memory.stream)
    assert memory.bytes_of(buffer) == array.tobytes()
    with pytest.raises(BufferError):
        buffer.copy_to(array, stream=memory.stream)


def test_the_destination_is_held_until_the_copy_is_done(memory):
    buffer = memory.filled(4 << 20, 3)
    out = bytearray(buffer.size)
    buffer.copy_to(out, stream=memory.stream)
    memory.stream.synchronize()
    assert out == b"\3" * buffer.size
    for _ in range(100):  # the main thread runs what the stream has released
        pass
    out.append(0)  # BufferError while a view is held
