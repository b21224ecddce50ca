# SPDX-License-Identifier: Apache-2.0
"""Copies between tensors and arrays of the host: NumPy, the buffer protocol, and what has __dlpack__ alone."""

import array
import ctypes
import gc
import sys
import weakref

import numpy as np
import pytest

import weir


class Exporter:
    """An array that has __dlpack__ and no buffer protocol, as those of PyTorch."""

    def __init__(self, content, device=None):
        self.content, self.device = content, device

    def __dlpack__(self, **options):
        return self.content.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device or self.content.__dlpack_device__()


def numbers(shape, dtype="float32"):
    return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)


def back(tensor, stream):
    out = np.empty(tensor.shape, tensor.dtype)
    assert tensor.copy_to(out, stream=stream) is out
    stream.synchronize()
    return out


DTYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64",
          "complex64", "complex128", "bool"]
LAYOUTS = {
    "compact": lambda a: a,
    "fortran": np.asfortranarray,
    "steps": lambda a: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3],
    "backward": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "part": lambda a: np.pad(a, 1)[1:-1, 1:-1],
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_element_types(pageable, dtype):
    tensor = pageable.resource.allocate_tensor((3, 4), dtype, stream=pageable.stream)
    tensor.copy_from(numbers((3, 4), dtype), stream=pageable.stream)
    assert (back(tensor, pageable.stream) == numbers((3, 4), dtype)).all()


@pytest.mark.parametrize("wrap", [lambda a: a, Exporter], ids=["buffer", "dlpack"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("padded", [None, (4, 8)], ids=["compact", "padded"])
def test_sets_and_gets_of_any_layout(memory, wrap, layout, padded):
    stream = memory.stream
    tensor = memory.resource.allocate_tensor((3, 4), "float32", stream=stream, padded_shape=padded)
    tensor.buffer.fill(0x55, stream=stream)
    source = LAYOUTS[layout](numbers((3, 4)))
    assert (source == numbers((3, 4))).all()
    tensor.copy_from(wrap(source), stream=stream)
    source[...] = -1  # the array has been read
    target = LAYOUTS[layout](np.zeros((3, 4), "float32"))
    given = wrap(target)
    assert tensor.copy_to(given, stream=stream) is given
    stream.synchronize()
    assert (target == numbers((3, 4))).all()
    if padded:
        whole = np.frombuffer(memory.bytes_of(tensor.buffer), "float32").reshape(padded)
        assert (whole[:3, :4] == numbers((3, 4))).all()
        rest = np.concatenate([whole[:, 4:].ravel(), whole[3:].ravel()])
        assert rest.tobytes() == b"\x55" * rest.nbytes


def test_both_sides_padded(memory):
    stream, padded = memory.stream, np.full((5, 7), 5, "int16")
    tensor = memory.resource.allocate_tensor((3, 4), "int16", stream=stream, padded_shape=(3, 6))
    padded[:3, :4] = numbers((3, 4))
    tensor.copy_from(padded[:3, :4], stream=stream)
    padded[:3, :4] = 0
    tensor.copy_to(padded[:3, :4], stream=stream)
    stream.synchronize()
    assert (padded[:3, :4] == numbers((3, 4))).all()
    assert (padded[3:] == 5).all() and (padded[:, 4:] == 5).all()


def test_other_objects_with_the_buffer_protocol(memory):
    stream = memory.stream
    tensor = memory.resource.allocate_tensor(4, "int32", stream=stream)
    for source in (array.array("i", [1, 2, 3, 4]), (ctypes.c_int32 * 4)(1, 2, 3, 4),
                   memoryview(array.array("i", [1, 0, 2, 0, 3, 0, 4]))[::2]):
        tensor.zero(stream=stream)
        tensor.copy_from(source, stream=stream)
        assert back(tensor, stream).tolist() == [1, 2, 3, 4]
    target = array.array("i", [0] * 4)
    tensor.copy_to(target, stream=stream)
    stream.synchronize()
    assert target.tolist() == [1, 2, 3, 4]
    raw = memory.resource.allocate_tensor(4, "uint8", stream=stream)
    raw.copy_from(b"abcd", stream=stream)
    assert memory.bytes_of(raw.buffer)[:4] == b"abcd"


def test_buffers_are_arrays_of_bytes(pageable):
    stream = pageable.stream
    tensor = pageable.resource.allocate_tensor(4, "uint8", stream=stream)
    tensor.copy_from(pageable.filled(4, 3), stream=stream)
    buffer = pageable.filled(4, 0)
    assert tensor.copy_to(buffer, stream=stream) is buffer
    assert bytes(buffer) == b"\3" * 4


def test_arrays_without_elements(pageable):
    tensor = pageable.resource.allocate_tensor((0, 3), "int32", stream=pageable.stream)
    tensor.copy_from(np.empty((0, 3), "int32"), stream=pageable.stream)
    assert back(tensor, pageable.stream).size == 0
    scalar = pageable.resource.allocate_tensor((), "int32", stream=pageable.stream)
    scalar.copy_from(np.array(5, "int32"), stream=pageable.stream)
    assert back(scalar, pageable.stream) == 5


def test_what_does_not_fit(pageable):
    stream = pageable.stream
    tensor = pageable.resource.allocate_tensor((2, 3), "int32", stream=pageable.stream)
    for wrong in (np.zeros((3, 2), "int32"), np.zeros(6, "int32"), np.zeros((2, 3), "float32"), bytearray(24),
                  Exporter(np.zeros((3, 2), "int32"))):
        for call in (tensor.copy_from, tensor.copy_to):
            with pytest.raises(weir.Error, match="they must be equal") as caught:
                call(wrong, stream=stream)
            assert caught.value.condition is weir.Errc.invalid_argument
    for wrong in (np.zeros((2, 3), ">i4"), np.zeros((2, 3), "U1"), np.zeros((2, 3), [("a", "i4")])):
        for call, name in ((tensor.copy_from, "src"), (tensor.copy_to, "dst")):
            with pytest.raises(TypeError, match=f"{name} must have elements of a type that weir has"):
                call(wrong, stream=stream)
    odd = np.zeros((2, 3), [("a", "i4"), ("b", "i2")])["a"]
    with pytest.raises(TypeError, match="src must have strides of whole elements, not of 18 bytes for 4"):
        tensor.copy_from(odd, stream=stream)
    on_device = Exporter(np.zeros((2, 3), "int32"), device=(2, 0))
    with pytest.raises(TypeError, match=r"src must be in memory of the host: .*from_dlpack\(array, stream=stream\)"):
        tensor.copy_from(on_device, stream=stream)


def test_what_no_address_reaches(pageable):
    tensor = pageable.resource.allocate_tensor((3, 2), "uint8", stream=pageable.stream)
    for far in (1 << 62, -(1 << 62), -(1 << 63)):
        endless = np.lib.stride_tricks.as_strided(np.zeros(1, "uint8"), shape=(3, 2), strides=(far, 1))
        with pytest.raises(ValueError, match="src reaches beyond every address"):
            tensor.copy_from(endless, stream=pageable.stream)
    empty = np.lib.stride_tricks.as_strided(np.zeros(1, "uint8"), shape=(0, 2), strides=(1, 1 << 62))
    pageable.resource.allocate_tensor((0, 2), "uint8", stream=pageable.stream).copy_from(empty, stream=pageable.stream)


def test_what_may_not_be_written(pageable):
    tensor = pageable.resource.allocate_tensor(3, "uint8", stream=pageable.stream)
    locked = np.zeros(3, "uint8")
    locked.flags.writeable = False
    for wrong, error in [(b"abc", BufferError), (locked, (BufferError, ValueError)), (Exporter(locked), weir.Error)]:
        with pytest.raises(error, match="writ|read-only"):
            tensor.copy_to(wrong, stream=pageable.stream)
        tensor.copy_from(wrong, stream=pageable.stream)


def test_arrays_are_given_up(memory):
    stream = memory.stream
    tensor = memory.resource.allocate_tensor((3, 4), "int16", stream=stream, padded_shape=(3, 5))
    for make in (lambda: numbers((3, 4), "int16"), lambda: numbers((4, 3), "int16").T):
        source = make()
        dead, counts = weakref.ref(source), sys.getrefcount(source)
        tensor.copy_from(source, stream=stream)
        tensor.copy_to(source, stream=stream)
        stream.synchronize()
        gc.collect()
        assert sys.getrefcount(source) == counts
        del source
        assert dead() is None


def test_sources_over_the_own_memory(host_memory):
    tensor = host_memory.resource.allocate_tensor((4, 4), "int32", stream=host_memory.stream, padded_shape=(4, 5))
    tensor.copy_from(numbers((4, 4), "int32"), stream=host_memory.stream)
    host_memory.stream.synchronize()
    tensor.copy_from(np.asarray(tensor).T, stream=host_memory.stream)
    assert (back(tensor, host_memory.stream) == numbers((4, 4), "int32").T).all()


def test_targets_are_locked_no_longer_than_the_copy(memory):
    tensor, out = memory.resource.allocate_tensor(3, "uint8", stream=memory.stream), bytearray(3)
    for _ in range(20):
        tensor.copy_to(out, stream=memory.stream)
        memory.stream.synchronize()
        out.append(0)
        del out[3:]
