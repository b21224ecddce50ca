# SPDX-License-Identifier: Apache-2.0
"""Integers of every sort in the place of sizes, and errors that name the argument and the operation."""

import ctypes

import numpy as np
import pytest

import weir


class Number:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


@pytest.mark.parametrize("make", [int, np.int64, np.uint8, np.uint64, Number, np.array], ids=lambda m: m.__name__)
def test_whatever_stands_for_an_integer(pageable, make):
    stream, n = pageable.stream, make
    buffer = pageable.resource.allocate(n(128), stream=stream, alignment=Number(512))
    assert buffer.size == 128 and buffer.host_data % 512 == 0
    assert pageable.resource.try_allocate(n(16), stream=stream, alignment=n(64)).size == 16
    buffer.fill(0, stream=stream)
    buffer.fill(9, stream=stream, width=n(1), offset=n(2), size=n(4))
    assert bytes(buffer.slice(n(1), n(6))) == b"\0\11\11\11\11\0"
    assert buffer.view("uint8", (n(4), n(2)), byte_offset=n(8)).shape == (4, 2)
    target = bytearray(8)
    buffer.copy_to(target, stream=stream, src_offset=n(1), dst_offset=n(3), size=n(4))
    stream.synchronize()
    assert target == b"\0\0\0\0\11\11\11\0"
    buffer.copy_from(b"abcd", stream=stream, src_offset=n(1), dst_offset=n(5), size=n(2))
    assert buffer.copy_to(stream=stream, src_offset=n(5), size=n(2)).size == 2
    assert bytes(buffer)[5:7] == b"bc"
    assert pageable.resource.trim(n(0)) == 0


def test_addresses(pageable):
    memory = ctypes.create_string_buffer(64)
    host, stream = weir.host_device(), pageable.stream
    for address in (np.uint64(ctypes.addressof(memory)), Number(ctypes.addressof(memory))):
        buffer = weir.Buffer.from_handle(host, address, np.int32(64), memory, stream=stream)
        assert buffer.host_data == int(address.value if isinstance(address, Number) else address) and len(buffer) == 64
    for address, error, words in (
        (-1, OverflowError, "address must be at least 0 and fit into 64 bits"),
        (1 << 64, OverflowError, "address must be at least 0 and fit into 64 bits"),
        (1.0, TypeError, "address must be an integer, not float"),
    ):
        with pytest.raises(error, match=words):
            weir.Buffer.from_handle(host, address, 64, memory, stream=stream)
    with pytest.raises(TypeError, match="size must be an integer, not bytes"):
        weir.Buffer.from_handle(host, ctypes.addressof(memory), b"64", memory, stream=stream)


@pytest.mark.parametrize("wrong, error, words", [
    (1.0, TypeError, "must be an integer, not float"),
    ("1", TypeError, "must be an integer, not str"),
    (True, TypeError, "must be an integer, not bool"),
    (np.float64(1), TypeError, "must be an integer, not float64"),
    (np.array([1, 2]), TypeError, "must be an integer, not ndarray"),
    (-1, ValueError, "must not be negative: -1"),
    (np.int8(-7), ValueError, "must not be negative: -7"),
    (1 << 63, OverflowError, "does not fit into 64 bits"),
    (-(1 << 64), OverflowError, "does not fit into 64 bits"),
])
def test_errors_name_the_argument(pageable, wrong, error, words):
    stream, buffer = pageable.stream, pageable.allocate(64)
    calls = {
        "size": [
            lambda: pageable.resource.allocate(wrong, stream=stream),
            lambda: pageable.resource.try_allocate(wrong, stream=stream),
            lambda: buffer.slice(0, wrong),
            lambda: buffer.fill(0, stream=stream, size=wrong),
            lambda: buffer.copy_to(stream=stream, size=wrong),
            lambda: buffer.copy_from(b"1", stream=stream, size=wrong),
        ],
        "alignment": [lambda: pageable.resource.allocate(1, stream=stream, alignment=wrong)],
        "offset": [lambda: buffer.slice(wrong, 1), lambda: buffer.fill(0, stream=stream, offset=wrong)],
        "src_offset": [
            lambda: buffer.copy_to(stream=stream, src_offset=wrong),
            lambda: buffer.copy_from(b"1", stream=stream, src_offset=wrong),
        ],
        "dst_offset": [
            lambda: buffer.copy_to(bytearray(1), stream=stream, dst_offset=wrong),
            lambda: buffer.copy_from(b"1", stream=stream, dst_offset=wrong),
        ],
        "byte_offset": [lambda: buffer.view(byte_offset=wrong)],
        "bytes_to_keep": [lambda: pageable.resource.trim(wrong)],
    }
    for name, those in calls.items():
        for call in those:
            with pytest.raises(error, match=f"^{name} {words}"):
                call()


def test_none_is_no_integer(pageable):
    with pytest.raises(TypeError, match="size must be an integer, not NoneType"):
        pageable.resource.allocate(None, stream=pageable.stream)


def test_errors_of_a_number_are_its_own(pageable):
    class Broken:
        def __index__(self):
            raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        pageable.resource.allocate(Broken(), stream=pageable.stream)


def test_closed_buffers_name_what_was_called(pageable):
    stream, open_one, closed = pageable.stream, pageable.allocate(8), pageable.allocate(8)
    closed.close()
    for words, call in (
        ("Buffer.fill: the buffer is closed", lambda: closed.fill(0, stream=stream)),
        ("Buffer.copy_to: the buffer is closed", lambda: closed.copy_to(stream=stream)),
        ("Buffer.copy_to: the buffer is closed", lambda: closed.copy_to(open_one, stream=stream)),
        ("Buffer.copy_to: the destination is closed", lambda: open_one.copy_to(closed, stream=stream)),
        ("Buffer.copy_from: the buffer is closed", lambda: closed.copy_from(b"", stream=stream)),
        ("Buffer.copy_from: the source is closed", lambda: open_one.copy_from(closed, stream=stream)),
        ("Buffer.share: the buffer is closed", closed.share),
        ("Buffer.slice: the buffer is closed", lambda: closed.slice(0, 0)),
        ("Buffer.view: the buffer is closed", closed.view),
        ("Buffer.use_on: the buffer is closed", lambda: closed.use_on(stream)),
        ("Buffer.ipc_descriptor: the buffer is closed", lambda: closed.ipc_descriptor(stream=stream)),
        ("Buffer.__bytes__: the buffer is closed", lambda: bytes(closed)),
    ):
        with pytest.raises(weir.Error) as raised:
            call()
        assert str(raised.value) == words
        assert raised.value.condition == weir.Errc.closed


def test_lengths_and_truth(memory):
    buffer, nothing = memory.allocate(1000), memory.allocate(0)
    assert (len(buffer), len(nothing)) == (1000, 0)
    assert buffer and nothing, "neither is None"
    buffer.close()
    assert len(buffer) == 0


def test_bytes_of_any_memory(memory):
    data = bytes(i * 11 % 256 for i in range(10_000))
    buffer = memory.allocate(len(data))
    buffer.copy_from(data, stream=memory.stream)
    assert bytes(buffer) == data
    assert bytes(buffer.slice(100, 20)) == data[100:120]
    assert bytes(memory.allocate(0)) == b""
    buffer.fill(1, stream=memory.stream)
    assert bytes(buffer) == b"\1" * len(data), "what was enqueued before"


def test_calls_that_are_handled_without_nanobind(pageable):
    """allocate, close and from_dlpack: every way to pass an argument, and every refusal."""
    resource, stream = pageable.resource, pageable.stream
    name = "".join(["str", "eam"])  # is not interned
    for buffer in (
        resource.allocate(8, stream=stream), resource.allocate(size=8, stream=stream), resource.allocate(8, **{name: stream}),
        resource.allocate(alignment=512, stream=stream, size=np.int8(8)),
    ):
        assert buffer.size == 8
        assert buffer.close() is None and buffer.is_closed
        buffer.close(stream), buffer.close(stream=stream), buffer.close(None)
    array = np.zeros(3)
    for tensor in (weir.from_dlpack(array), weir.from_dlpack(obj=array, stream=None), weir.from_dlpack(array, stream=stream)):
        assert tensor.shape == (3,)
    close = resource.allocate(8, stream=stream).close
    new = weir.Stream.__new__(weir.Stream)
    for call, arguments, options, words in [
        (resource.allocate, (), {"stream": stream}, r"allocate\(\) needs the argument 'size'"),
        (resource.allocate, (8,), {}, r"allocate\(\) needs the argument 'stream'"),
        (resource.allocate, (8, stream), {}, r"allocate\(\) takes at most 1 positional arguments, and 2 were given"),
        (resource.allocate, (8,), {"size": 8, "stream": stream}, r"allocate\(\) got multiple values for argument 'size'"),
        (resource.allocate, (8,), {"stream": stream, "bytes": 8}, r"allocate\(\) got an unexpected keyword argument 'bytes'"),
        (resource.allocate, (8,), {"stream": stream, "\ud800": 8}, r"allocate\(\) got an unexpected .* '\\ud800'"),
        (resource.allocate, (8,), {"stream": None}, "stream must be a weir.Stream, not NoneType"),
        (resource.allocate, (8,), {"stream": resource}, "stream must be a weir.Stream, not weir._weir.MemoryResource"),
        (resource.allocate, (8,), {"stream": new}, "stream must be a weir.Stream, not"),
        (resource.allocate, (8,), {"stream": stream, "alignment": None}, "alignment must be an integer, not NoneType"),
        (close, (1,), {}, "stream must be a weir.Stream, not int"),
        (close, (None, None), {}, r"close\(\) takes at most 1 positional"),
        (weir.from_dlpack, (), {}, r"from_dlpack\(\) needs the argument 'obj'"),
        (weir.from_dlpack, (array,), {"stream": 1}, "stream must be a weir.Stream, not int"),
        (weir.Buffer.close, (weir.Buffer.__new__(weir.Buffer),), {}, "self must be a weir.Buffer, not"),
        (weir.Buffer.close, (stream,), {}, "descriptor 'close'"),
        (memoryview, (weir.Buffer.__new__(weir.Buffer),), {}, "self must be a weir.Buffer, not"),
        (memoryview, (weir.Tensor.__new__(weir.Tensor),), {}, "self must be a weir.Tensor, not"),
        (weir.Tensor.__new__(weir.Tensor).__dlpack__, (), {}, "self must be a weir.Tensor, not"),
        (weir.Buffer.__new__(weir.Buffer).__dlpack_device__, (), {}, "self must be a weir.Buffer, not"),
    ]:
        with pytest.raises(TypeError, match=words):
            call(*arguments, **options)
    assert resource.stats()["live_buffers"] == 1
    close()
