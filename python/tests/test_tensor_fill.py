# SPDX-License-Identifier: Apache-2.0
"""Values that fill the elements of tensors: of the element type, with and without the gaps."""

import math
import random
import struct

import numpy as np
import pytest

import weir

SEED = random.randrange(1 << 30)


def filled(memory, value, dtype, **options):
    """The bytes of a padded tensor whose memory was all 0x55 before the fill."""
    tensor = memory.resource.allocate_tensor((2, 3), dtype, stream=memory.stream, padded_shape=(3, 4))
    tensor.buffer.fill(0x55, stream=memory.stream)
    tensor.fill(value, stream=memory.stream, **options)
    return memory.bytes_of(tensor.buffer)


def expected(element, over_gaps=False):
    gap = b"\x55" * len(element)
    row = element * 3 + (element if over_gaps else gap)
    return row + element * 3 + gap * 5


NUMBERS = [
    (-3, "int8"), (255, "uint8"), (-2, "int16"), (65535, "uint16"), (-(1 << 31), "int32"), ((1 << 32) - 1, "uint32"),
    (-(1 << 63), "int64"), ((1 << 64) - 1, "uint64"), (0.5, "float16"), (-1.25, "float32"), (0.1, "float64"),
    (7, "float64"), (1 + 2j, "complex64"), (1.5 - 2.5j, "complex128"), (3, "complex128"), (True, "bool"), (0, "bool"),
    (True, "int16"), (math.inf, "float32"),
]


@pytest.mark.parametrize("value, dtype", NUMBERS, ids=str)
def test_numbers_of_the_element_type(memory, value, dtype):
    element = np.array(value).astype(dtype).tobytes()
    assert filled(memory, value, dtype) == expected(element)
    assert filled(memory, value, dtype, over_gaps=True) == expected(element, over_gaps=True)
    scalar = np.dtype(dtype).type(value)
    assert filled(memory, scalar, dtype) == expected(element)
    assert filled(memory, np.array(scalar), dtype) == expected(element), "an array without dimensions"
    assert filled(memory, element, dtype) == expected(element)
    assert filled(memory, memoryview(element), dtype) == expected(element)


def test_numbers_without_a_type_of_python(pageable):
    assert filled(pageable, 1.0, "bfloat16") == expected(struct.pack("=H", 0x3F80))
    assert filled(pageable, np.float32(1.5), "float64") == expected(struct.pack("d", 1.5))
    assert filled(pageable, np.int8(-1), "int64") == expected(b"\xff" * 8)
    assert filled(pageable, np.complex64(1j), "complex128") == expected(struct.pack("dd", 0, 1))


@pytest.mark.parametrize("value, dtype, words", [
    (256, "uint8", "does not fit into uint8"),
    (-1, "uint64", "does not fit into uint64"),
    (128, "int8", "does not fit into int8"),
    (1e300, "float32", "does not fit into float32"),
    pytest.param(10**400, "float32", "does not fit into float32", id="10**400-float32"),
    pytest.param(-(10**400), "float64", "does not fit into float64", id="-(10**400)-float64"),
    pytest.param(10**400, "bfloat16", "does not fit into bfloat16", id="10**400-bfloat16"),
    pytest.param(10**400, "complex128", "does not fit into complex128", id="10**400-complex128"),
    (2, "bool", "does not fit into bool"),
    (1e39j, "complex64", "does not fit into complex64"),
    (b"abc", "int16", "value has 3 bytes; an element of int16 has 2"),
    (b"", "complex128", "value has 0 bytes; an element of complex128 has 16"),
])
def test_what_does_not_fit(pageable, value, dtype, words):
    with pytest.raises(ValueError, match=words):
        filled(pageable, value, dtype)


@pytest.mark.parametrize("value, dtype", [
    (1.0, "int32"), (1j, "float32"), ("1", "float64"), (None, "uint8"), (np.zeros(3), "float64"), (1.0, "bool"),
    ([1], "int8"), (object(), "complex128"), (np.zeros(2), "int32"),
], ids=str)
def test_what_is_no_value(pageable, value, dtype):
    with pytest.raises(TypeError, match="value must be|can be converted"):
        filled(pageable, value, dtype)


def test_zero(memory):
    for dtype in ["uint8", "float32", "complex128", "bool"]:
        tensor = memory.resource.allocate_tensor((2, 3), dtype, stream=memory.stream, padded_shape=(3, 4))
        for over_gaps in (False, True):
            tensor.buffer.fill(0x55, stream=memory.stream)
            tensor.zero(stream=memory.stream, over_gaps=over_gaps)
            assert memory.bytes_of(tensor.buffer) == expected(bytes(tensor.itemsize), over_gaps)


def test_refusals(pageable):
    stream = pageable.stream
    tensor = pageable.resource.allocate_tensor((4,), "u1", stream=stream)
    for call in (lambda **k: tensor.fill(1, **k), tensor.zero, tensor.empty_like, tensor.empty_like_host):
        with pytest.raises(TypeError):
            call()  # names no stream
    array = np.zeros(4, "u1")
    array.flags.writeable = False
    read_only = weir.from_dlpack(array)
    for call in (lambda: read_only.fill(1, stream=stream), lambda: read_only.zero(stream=stream)):
        with pytest.raises(weir.Error, match="read-only") as caught:
            call()
        assert caught.value.condition is weir.Errc.permission_denied


def test_assignments_say_what_to_do(pageable):
    tensor = pageable.resource.allocate_tensor((4,), "u1", stream=pageable.stream)
    for key, value in [(0, 1), (slice(None), np.zeros(4)), (..., tensor)]:
        with pytest.raises(TypeError, match=r"names no stream: use tensor\[index\].fill.*tensor\[index\].copy_from"):
            tensor[key] = value


@pytest.mark.parametrize("device", weir.devices(), ids=lambda device: device.id)
def test_random_layouts_against_numpy(device):
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    stream, resource = weir.Stream(device), weir.make_resource(device)
    for _ in range(60):
        dtype = np.dtype(rng.choice(["uint8", "int16", "float32", "float64", "complex128"]))
        shape = [rng.randint(1, 5) for _ in range(rng.randint(1, 4))]
        padded = [extent + rng.randint(0, 3) for extent in shape]
        tensor = resource.allocate_tensor(shape, dtype, stream=stream, padded_shape=padded)
        tensor.buffer.fill(9, stream=stream, dtype="uint8")
        model = np.frombuffer(b"\11" * tensor.buffer.size, dtype).copy().reshape(padded)
        axes = rng.sample(range(len(shape)), len(shape))
        key = tuple(slice(rng.choice([None, 0, 1]), None, rng.choice([-2, -1, 1, 2, 3])) for _ in shape)
        value = rng.randrange(100)
        part = model[tuple(map(slice, shape))].transpose(axes)[key]
        part[...] = value
        tensor.transpose(axes)[key].fill(value, stream=stream)
        assert bytes(tensor.buffer) == model.tobytes(), (SEED, dtype, shape, padded, axes, key)
