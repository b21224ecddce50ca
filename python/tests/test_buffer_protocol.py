# SPDX-License-Identifier: Apache-2.0
"""PEP 3118: memoryview, bytes, NumPy, struct over host-accessible memory."""

import ctypes
import io
import itertools
import struct

import numpy as np
import capsules
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


def test_more_bytes_than_can_be_counted_are_refused():
    """Each of the elements is the same one. A view of 0 bytes would be copied as one of 2**64."""
    capsule = np.zeros(1).__dlpack__()
    struct = capsules.managed(capsule).tensor
    struct.shape[0], struct.strides[0] = 1 << 61, 0
    tensor = weir.from_dlpack(capsule)
    with pytest.raises(BufferError, match="more bytes"):
        memoryview(tensor)
    assert memoryview(tensor[:4]).nbytes == 32


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


class View(ctypes.Structure):
    """Py_buffer."""

    _fields_ = [
        ("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)), ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)), ("internal", ctypes.c_void_p),
    ]


def answer(thing, flags):
    """What PyObject_GetBuffer says. The strides of one position say nothing, and neither do dimensions without a shape."""
    view = View()
    try:
        ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(thing), ctypes.byref(view), flags)
    except (BufferError, ValueError):  # NumPy raises both
        return None
    shape = tuple(view.shape[: view.ndim]) if view.shape else None
    strides = shape and tuple(s if n > 1 else 0 for n, s in zip(shape, view.strides or itertools.repeat(0)))
    strides = None if shape and 0 in shape else strides
    said = (view.buf if view.len else 0, view.len, view.itemsize, view.readonly, view.format, shape, strides)
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
    return said


@pytest.mark.parametrize("part", [
    lambda x: x,
    lambda x: x.reshape(4, 6),
    lambda x: x.reshape(4, 6).T,
    lambda x: x.reshape(2, 3, 4).transpose(2, 1, 0),
    lambda x: x.reshape(2, 3, 4).transpose(0, 2, 1),
    lambda x: x.reshape(1, 24),
    lambda x: x.reshape(24, 1).T,
    lambda x: x.reshape(4, 6)[:, 1:3],
    lambda x: x.reshape(4, 6)[:, 1:3].T,
    lambda x: x.reshape(4, 6)[1:2, 2:3],
    lambda x: x.reshape(4, 6)[1:2, ::2].T,
    lambda x: x.reshape(4, 6)[0:0].T,
    lambda x: x[::2],
    lambda x: x[::-1],
])
def test_orders_are_those_of_numpy(part):
    """PyBUF_SIMPLE, ND, STRIDES, C, F and ANY contiguous, and INDIRECT; each also WRITABLE and with FORMAT."""
    array = np.arange(24, dtype="float32")
    tensor, same = part(weir.from_dlpack(array)), part(array)
    for order, more in itertools.product((0, 0x8, 0x18, 0x38, 0x58, 0x98, 0x118), (0, 1, 4, 5)):
        assert answer(tensor, order | more) == answer(same, order | more), hex(order | more)


def test_readers_that_ask_for_columns(pageable):
    """As programs of Fortran do: a transposed matrix has them, a matrix has rows."""
    tensor = pageable.filled(48, 0).view("int16", (4, 6)).T
    assert answer(tensor, 0x58) and not answer(tensor, 0x38)
    assert not answer(tensor.T, 0x58) and answer(tensor.T, 0x98)


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
