# SPDX-License-Identifier: Apache-2.0
"""Allocation, fills and copies of every kind of memory."""

import gc
import itertools
import weakref

import numpy as np
import pytest
from conftest import ALL, Memory

import weir


def test_allocation_says_what_it_is(memory):
    buffer = memory.allocate(1000)
    assert buffer.size == buffer.nbytes == 1000
    assert buffer.device == memory.device
    assert buffer.kind == memory.info.kind
    assert buffer.memory_resource.name == memory.resource.name
    assert buffer.is_host_accessible == memory.info.host_accessible
    assert buffer.is_device_accessible == memory.info.device_accessible
    assert (buffer.host_data != 0) == memory.info.host_accessible
    assert buffer.host_data % 256 == 0
    assert buffer.handle == buffer.device_address
    assert not buffer.is_closed and not buffer.is_read_only
    assert "1000 bytes" in repr(buffer)


def test_zero_bytes(memory):
    buffer = memory.allocate(0)
    assert (buffer.size, buffer.host_data, buffer.device_address) == (0, 0, 0)
    buffer.fill(1, stream=memory.stream)
    buffer.copy_from(b"", stream=memory.stream)
    assert buffer.copy_to(stream=memory.stream).size == 0
    assert buffer.memory_resource.name == memory.resource.name
    assert not buffer.is_closed


def test_tensors_without_elements(memory):
    """Wherever they begin: zero bytes do nothing."""
    buffer, other = memory.filled(64, 1), memory.filled(64, 2)
    for empty in (buffer.view("uint8", (0,), byte_offset=16), buffer.view("uint8")[4:8][2:2]):
        other.copy_from(empty, stream=memory.stream, dst_offset=64)
        other.copy_to(empty, stream=memory.stream, src_offset=64)
    assert memory.bytes_of(buffer) + memory.bytes_of(other) == b"\x01" * 64 + b"\x02" * 64


@pytest.mark.parametrize("alignment", [1, 256, 4096])
def test_alignment(memory, alignment):
    buffer = memory.resource.allocate(10, stream=memory.stream, alignment=alignment)
    assert buffer.host_data % max(alignment, 256) == 0


@pytest.mark.parametrize("alignment", [0, 3, 257])
def test_wrong_alignment_is_refused(memory, alignment):
    with pytest.raises(weir.Error, match=f"alignment {alignment} is not a power of two") as raised:
        memory.resource.allocate(10, stream=memory.stream, alignment=alignment)
    assert raised.value.condition == weir.Errc.invalid_argument


def test_negative_numbers_are_refused(memory):
    with pytest.raises(ValueError, match="size must not be negative: -1"):
        memory.resource.allocate(-1, stream=memory.stream)
    with pytest.raises(ValueError, match="alignment must not be negative"):
        memory.resource.allocate(1, stream=memory.stream, alignment=-256)
    with pytest.raises(ValueError, match="offset must not be negative"):
        memory.allocate(8).slice(-1, 4)


def test_the_stream_is_always_named(memory):
    buffer = memory.allocate(8)
    for call in (
        lambda: memory.resource.allocate(8),
        lambda: memory.resource.allocate(8, memory.stream),
        lambda: buffer.fill(0),
        lambda: buffer.copy_to(),
        lambda: buffer.copy_from(b"12345678"),
        lambda: buffer.ipc_descriptor(),
    ):
        with pytest.raises(TypeError):
            call()


def test_out_of_memory_explains_itself(memory):
    petabyte = 1 << 50
    with pytest.raises(weir.OutOfMemory) as raised:
        memory.allocate(petabyte)
    error = raised.value
    assert isinstance(error, MemoryError)
    assert error.requested == petabyte
    assert memory.device.id in error.device and error.resource == memory.resource.name
    assert str(error)
    for field in ("alignment", "in_use", "reserved", "limit", "largest_free", "device_free", "code"):
        assert isinstance(getattr(error, field), int)
    assert memory.resource.try_allocate(petabyte, stream=memory.stream) is None
    assert memory.resource.try_allocate(16, stream=memory.stream).size == 16


def test_statistics_and_trim(memory):
    before = memory.resource.stats()["live_buffers"]
    buffers = [memory.allocate(4096) for _ in range(3)]
    stats = memory.resource.stats()
    assert stats["live_buffers"] == before + 3
    assert stats["in_use"] >= 3 * 4096
    assert stats["peak_in_use"] >= stats["in_use"]
    assert stats["allocations"] >= 3
    buffers.clear()
    assert memory.resource.stats()["live_buffers"] == before
    assert memory.resource.trim(0) >= 0


def test_statistics_have_what_the_driver_says_of_cuda(cuda):
    kept = cuda.allocate(1 << 22)
    stats = cuda.resource.stats()
    assert 0 < stats["device_free"] < stats["device_budget"]
    assert stats["in_use"] == kept.size


@pytest.mark.parametrize(
    "width, value, pattern",
    [
        (1, 0xAB, b"\xab"),
        (1, -1, b"\xff"),
        (2, 0x1234, b"\x34\x12"),
        (4, -2, b"\xfe\xff\xff\xff"),
        (8, (1 << 64) - 2, b"\xfe" + b"\xff" * 7),
        (8, -(1 << 63), b"\0" * 7 + b"\x80"),
    ],
)
def test_fill(memory, width, value, pattern):
    buffer = memory.allocate(4096)
    buffer.fill(0, stream=memory.stream)
    buffer.fill(value, stream=memory.stream, width=width, offset=24, size=800)
    expected = bytes(24) + pattern * (800 // width) + bytes(4096 - 824)
    assert memory.bytes_of(buffer) == expected


@pytest.mark.parametrize(
    "width, value", [(1, 256), (1, -129), (2, 1 << 16), (4, 1 << 32), (8, 1 << 64), (8, -(1 << 63) - 1)]
)
def test_fill_values_must_fit(pageable, width, value):
    with pytest.raises(ValueError, match=f"does not fit into {width} bytes"):
        pageable.allocate(64).fill(value, stream=pageable.stream, width=width)


def test_fill_refuses_wrong_ranges(memory):
    buffer = memory.allocate(64)
    with pytest.raises(ValueError, match="width must be 1, 2, 4 or 8"):
        buffer.fill(0, stream=memory.stream, width=3)
    for arguments in ({"width": 4, "size": 6}, {"offset": 60, "size": 8}, {"offset": 65}):
        with pytest.raises(weir.Error) as raised:
            buffer.fill(0, stream=memory.stream, **arguments)
        assert raised.value.condition == weir.Errc.invalid_argument


def test_host_bytes_there_and_back(memory):
    data = bytes(i * 7 % 256 for i in range(10_000))
    buffer = memory.allocate(len(data))
    buffer.copy_from(data, stream=memory.stream)
    assert memory.bytes_of(buffer) == data
    out = bytearray(100)
    assert buffer.copy_to(out, stream=memory.stream, src_offset=501, dst_offset=20, size=30) is out
    memory.stream.synchronize()
    assert out == bytes(20) + data[501:531] + bytes(50)


@pytest.mark.parametrize("pair", list(itertools.product(ALL, ALL)), ids=lambda p: f"{p[0].id}-{p[1].id}")
def test_copies_between_any_two_memories(pair):
    source, target = (Memory(*p.values[0]) for p in pair)
    data = bytes(i * 13 % 256 for i in range(70_001))
    a, b = source.allocate(len(data)), target.filled(len(data), 1)
    a.copy_from(data, stream=source.stream)
    target.stream.wait(source.stream.record())
    b.copy_from(a, stream=target.stream, src_offset=3, dst_offset=5, size=60_000)
    assert target.bytes_of(b) == b"\1" * 5 + data[3:60_003] + b"\1" * (len(data) - 60_005)
    a.copy_to(b, stream=target.stream)
    assert target.bytes_of(b) == data


def test_copy_to_a_new_buffer(memory):
    buffer = memory.allocate(1000)
    buffer.copy_from(bytes(range(250)) * 4, stream=memory.stream)
    twin = buffer.copy_to(stream=memory.stream)
    part = buffer.copy_to(stream=memory.stream, src_offset=250, size=250)
    assert twin.memory_resource.name == memory.resource.name
    assert memory.bytes_of(twin) == bytes(range(250)) * 4
    assert memory.bytes_of(part) == bytes(range(250))


def test_tensors_are_copied_without_what_lies_around_them(memory):
    around, other = memory.filled(12, 0), memory.filled(4, 3)
    part = around.view("uint8", (4,), byte_offset=5)
    other.copy_to(part, stream=memory.stream)
    assert memory.bytes_of(around) == bytes(5) + b"\3\3\3\3" + bytes(3)
    around.fill(7, stream=memory.stream, offset=6, size=6)
    other.copy_from(part, stream=memory.stream)
    assert memory.bytes_of(other) == b"\3\7\7\7"


def test_copy_sizes_must_match(memory):
    buffer, small = memory.allocate(100), memory.allocate(10)
    for call in (
        lambda: buffer.copy_from(small, stream=memory.stream),
        lambda: buffer.copy_to(small, stream=memory.stream),
        lambda: buffer.copy_from(b"123", stream=memory.stream),
        lambda: buffer.copy_to(bytearray(3), stream=memory.stream),
        lambda: buffer.copy_from(small, stream=memory.stream, size=11),
        lambda: buffer.copy_from(small, stream=memory.stream, src_offset=11),
    ):
        with pytest.raises(weir.Error, match="bytes") as raised:
            call()
        assert raised.value.condition == weir.Errc.invalid_argument


def test_copy_objects_must_have_memory(memory):
    buffer = memory.allocate(4)
    with pytest.raises(TypeError):
        buffer.copy_from([1, 2, 3, 4], stream=memory.stream)
    with pytest.raises(BufferError):
        buffer.copy_to(b"read", stream=memory.stream)


@pytest.mark.parametrize("fields", [None, [("a", "i8"), ("b", object)]])
def test_objects_of_python_are_no_bytes(memory, fields):
    """Bytes over the references of an array would be followed as addresses when they are dropped."""
    objects = np.zeros(2, np.dtype(fields or object))
    buffer = memory.filled(objects.nbytes, 1)
    for call in (
        lambda: buffer.copy_to(objects, stream=memory.stream),
        lambda: buffer.copy_from(objects, stream=memory.stream),
    ):
        with pytest.raises(TypeError, match=r"objects of Python, of format '.*O.*', cannot be copied as bytes"):
            call()
    assert (objects == np.zeros_like(objects)).all()


def test_names_of_fields_are_no_formats(memory):
    records = np.zeros(2, [("Old", "i4"), ("O", "f4")])
    buffer = memory.filled(records.nbytes, 1)
    buffer.copy_to(records, stream=memory.stream)
    memory.stream.synchronize()
    assert records["Old"].tolist() == [0x01010101] * 2


def test_slices_share_the_memory(memory):
    buffer = memory.filled(1000, 1)
    part = buffer.slice(100, 200)
    part.fill(2, stream=memory.stream)
    assert memory.bytes_of(buffer) == b"\1" * 100 + b"\2" * 200 + b"\1" * 700
    if buffer.host_data:
        assert part.host_data == buffer.host_data + 100
    with pytest.raises(weir.Error, match="do not lie in a buffer of 200 bytes"):
        part.slice(100, 101)


def test_closed_buffers_say_so(memory):
    buffer = memory.allocate(64)
    buffer.close()
    buffer.close()
    buffer.close(memory.stream)
    assert buffer.is_closed
    assert (buffer.size, buffer.host_data, buffer.device_address) == (0, 0, 0)
    assert repr(buffer) == "<weir.Buffer closed>"
    for call in (
        buffer.share,
        lambda: buffer.slice(0, 0),
        lambda: buffer.fill(0, stream=memory.stream),
        lambda: buffer.copy_to(stream=memory.stream),
        lambda: buffer.copy_from(b"", stream=memory.stream),
        lambda: buffer.view(),
        lambda: buffer.device,
        lambda: buffer.ipc_descriptor(stream=memory.stream),
        buffer.__dlpack__,
        buffer.__dlpack_device__,
        lambda: memoryview(buffer),
    ):
        with pytest.raises(weir.Error, match="closed") as raised:
            call()
        assert raised.value.condition == weir.Errc.closed


def test_with_closes(memory):
    with memory.allocate(64) as buffer:
        assert not buffer.is_closed
    assert buffer.is_closed
    with pytest.raises(RuntimeError, match="inside"), memory.allocate(64) as buffer:
        raise RuntimeError("inside")
    assert buffer.is_closed


def test_a_buffer_keeps_what_it_needs_alive(memory):
    buffer = memory.filled(4096, 7)
    device, info = memory.device, memory.info
    memory.stream.synchronize()  # nothing orders the two streams
    memory.resource = memory.stream = None
    gc.collect()
    other = Memory(device, info)
    other.stream.wait(weir.Event())
    assert buffer.memory_resource.stats()["live_buffers"] == 1
    out = buffer.copy_to(stream=other.stream)
    assert out.size == 4096


def test_view_checks_its_arguments(pageable):
    buffer = pageable.allocate(64)
    assert buffer.view().shape == (64,)
    assert buffer.view("float32").shape == (16,)
    assert buffer.view("int16", 3, byte_offset=2).shape == (3,)
    tensor = buffer.view("float64", (2, 4))
    assert (tensor.dtype, tensor.strides, tensor.size, tensor.itemsize) == ("float64", (4, 1), 8, 8)
    with pytest.raises(ValueError, match="no element type 'float7'; there are uint8"):
        buffer.view("float7")
    for arguments in (("float64", (3, 4)), ("float64", (-1,)), ("uint8", (1 << 40, 1 << 40))):
        with pytest.raises((weir.Error, weir.OutOfMemory)):
            buffer.view(*arguments)
    assert buffer.view("float32", (0, 5), byte_offset=64).shape == (0, 5)
    for offset in (65, 1 << 62):
        for options in ({}, {"padded_shape": (0, 8)}):
            with pytest.raises(weir.Error, match=f"byte offset {offset} lies outside of a buffer of 64"):
                buffer.view("float32", (0, 5), byte_offset=offset, **options)
    with pytest.raises(weir.Error, match="not a whole number of float64"):
        buffer.slice(0, 60).view("float64")


def test_foreign_memory_is_owned_until_its_last_use():
    import ctypes

    class Owner:
        def __init__(self):
            self.memory = ctypes.create_string_buffer(b"foreign", 16)

        def __del__(self):
            gone.append(True)

    gone = []
    owner = Owner()
    stream = weir.Stream(weir.host_device())
    address = ctypes.addressof(owner.memory)
    buffer = weir.Buffer.from_handle(weir.host_device(), address, 16, owner, stream=stream)
    del owner
    gc.collect()
    assert not gone
    assert buffer.host_data == address and bytes(buffer)[:7] == b"foreign"
    view = memoryview(buffer)
    buffer.close()
    assert not gone
    view.release()
    weir.Stream(weir.host_device()).synchronize()
    assert gone == [True]


def test_foreign_memory_must_be_some():
    class Owner:
        pass

    owner = Owner()
    with pytest.raises(weir.Error, match="names no memory"):
        weir.Buffer.from_handle(weir.host_device(), 0, 16, owner, stream=weir.Stream(weir.host_device()))
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None


def test_kinds_by_name_and_value():
    host = weir.host_device()
    assert weir.make_resource(host).kind == host.default_kind
    assert weir.make_resource(host, "shared").kind == weir.MemoryKind.shared
    for kind in weir.MemoryKind:  # by the names that Python has for them
        if any(info.kind == kind for info in host.kinds):
            assert weir.make_resource(host, kind.name).kind == kind
        else:
            with pytest.raises(weir.Error, match="it has"):
                weir.make_resource(host, kind.name)
    with pytest.raises(ValueError, match=r"kind has characters that have no UTF-8: '\\ud800'"):
        weir.make_resource(host, "\ud800")
    with pytest.raises(ValueError, match="no kind of memory is named 'soft'; there are pageable"):
        weir.make_resource(host, "soft")
    with pytest.raises(TypeError, match="kind must be"):
        weir.make_resource(host, 3)
    with pytest.raises(weir.Error, match="it has") as raised:
        weir.make_resource(host, weir.MemoryKind.vmm)
    assert raised.value.condition == weir.Errc.unsupported
    with pytest.raises(weir.Error, match="cannot be shared with other processes"):
        weir.make_resource(host, "pageable", exportable=True)
