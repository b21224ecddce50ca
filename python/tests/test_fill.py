# SPDX-License-Identifier: Apache-2.0
"""What can fill memory: Python's numbers, bytes, NumPy's scalars, and elements of a named type."""

import math
import struct

import numpy as np
import pytest

import weir


def filled(memory, value, **options):
    buffer = memory.allocate(64)
    buffer.fill(0, stream=memory.stream)
    buffer.fill(value, stream=memory.stream, **options)
    return memory.bytes_of(buffer)


def repeated(pattern):
    return pattern * (64 // len(pattern))


@pytest.mark.parametrize(
    "value, pattern",
    [
        (0x7F, b"\x7f"),
        (True, b"\1"),
        (False, b"\0"),
        (1.5, struct.pack("d", 1.5)),
        (-math.inf, struct.pack("d", -math.inf)),
        (b"\x9a", b"\x9a"),
        (b"ab", b"ab"),
        (bytearray(b"abcd"), b"abcd"),
        (memoryview(b"abcdefgh"), b"abcdefgh"),
        (memoryview(b"a-b-")[::2], b"ab"),
    ],
)
def test_python_values(memory, value, pattern):
    assert filled(memory, value) == repeated(pattern)


@pytest.mark.parametrize(
    "name", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64",
             "complex64", "bool"],
)
def test_numpy_scalars_have_the_bytes_of_their_type(memory, name):
    scalar = np.dtype(name).type(1)
    expected = repeated(scalar.tobytes())
    assert filled(memory, scalar) == expected
    assert filled(memory, np.array(scalar)) == expected, "an array without dimensions"
    assert filled(memory, 1, dtype=name) == expected
    assert filled(memory, scalar, dtype=np.dtype(name)) == expected
    assert filled(memory, np.float64(1) if name[0] in "fc" else np.int64(1), dtype=name) == expected


@pytest.mark.parametrize("value", [np.datetime64("2026-01-01"), np.timedelta64(3, "s"), np.float64(0.1), np.int16(-2)])
def test_other_numpy_scalars(pageable, value):
    assert filled(pageable, value) == repeated(value.tobytes())


@pytest.mark.parametrize("width, format", [(2, "e"), (4, "f"), (8, "d")])
@pytest.mark.parametrize("value", [0.1, -2.5, math.inf])
def test_floats_of_a_width(memory, width, format, value):
    assert filled(memory, value, width=width) == repeated(struct.pack(format, value))


def test_a_width_makes_an_integer_of_a_numpy_integer(pageable):
    assert filled(pageable, np.int64(5), width=1) == b"\5" * 64
    assert filled(pageable, np.int64(5), width=np.uint8(4)) == repeated(b"\5\0\0\0")
    assert filled(pageable, np.float64(0.5), width=4) == repeated(struct.pack("f", 0.5))
    assert filled(pageable, np.float32(0.5), width=4) == repeated(struct.pack("f", 0.5))
    assert filled(pageable, True, width=2) == repeated(b"\1\0")
    assert filled(pageable, b"abcd", width=4) == repeated(b"abcd")


class Seven:
    def __index__(self):
        return 7


def test_what_stands_for_an_integer(pageable):
    assert filled(pageable, Seven()) == b"\7" * 64
    assert filled(pageable, Seven(), dtype="int32", size=np.int64(8), offset=Seven()) == bytes(7) + b"\7\0\0\0" * 2 + bytes(49)


def exact_bfloat16(value):
    """By trying: the nearest of all, the even one of two."""
    bits = np.arange(1 << 16, dtype=np.uint32)
    with np.errstate(invalid="ignore"):  # those that are no numbers
        numbers = (bits << 16).view(np.float32).astype(np.float64)
    finite = np.isfinite(numbers) & (np.signbit(numbers) == np.signbit(value))
    distance = np.where(finite, np.abs(numbers - value), np.inf)
    best = np.flatnonzero(distance == distance.min())
    return int(best[0] if len(best) == 1 or best[0] % 2 == 0 else best[1])


@pytest.mark.parametrize(
    "value",
    [0.0, -0.0, 1.0, 0.1, -0.1, 3.0e38, 1e-40, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-40, 1 + 2**-8 - 2**-40,
     1 + 3 * 2**-8 - 2**-45, -(1 + 2**-8 + 2**-40)],
)
def test_bfloat16_is_rounded_once(pageable, value):
    assert filled(pageable, value, dtype="bfloat16") == repeated(struct.pack("H", exact_bfloat16(value)))


def test_bfloat16_without_a_value(pageable):
    assert filled(pageable, math.inf, dtype="bfloat16") == repeated(b"\x80\x7f")
    assert filled(pageable, -math.inf, dtype="bfloat16") == repeated(b"\x80\xff")
    assert filled(pageable, math.nan, dtype="bfloat16") == repeated(b"\xc0\x7f")
    with pytest.raises(ValueError, match="value does not fit into bfloat16"):
        filled(pageable, 3.4e38, dtype="bfloat16")
    with pytest.raises(ValueError, match="value does not fit into bfloat16"):
        filled(pageable, -1e300, dtype="bfloat16")


def test_complex_elements(pageable):
    assert filled(pageable, 1 - 2j, dtype="complex64") == repeated(np.complex64(1 - 2j).tobytes())
    assert filled(pageable, np.complex128(1 - 2j), dtype="complex64") == repeated(np.complex64(1 - 2j).tobytes())


@pytest.mark.parametrize("dtype, least, most", [
    ("int8", -128, 127), ("uint8", 0, 255), ("int16", -(1 << 15), (1 << 15) - 1), ("uint16", 0, (1 << 16) - 1),
    ("int32", -(1 << 31), (1 << 31) - 1), ("uint32", 0, (1 << 32) - 1), ("int64", -(1 << 63), (1 << 63) - 1),
    ("uint64", 0, (1 << 64) - 1), ("bool", 0, 1),
])
def test_integers_must_fit_into_the_type(pageable, dtype, least, most):
    for value in (least, most):
        assert filled(pageable, value, dtype=dtype) == repeated(np.dtype(dtype).type(value).tobytes())
    for value in (least - 1, most + 1, 1 << 70, -(1 << 70)):
        with pytest.raises(ValueError, match=f"value does not fit into {dtype}"):
            filled(pageable, value, dtype=dtype)


@pytest.mark.parametrize("value, options, error, words", [
    ("1", {}, TypeError, "value must be an int, a float, a bool, 1, 2, 4 or 8 bytes, or a scalar of NumPy, not str"),
    ([1], {}, TypeError, "value must be an int, .* not list"),
    (1j, {}, TypeError, "value must be an int, .* not complex"),
    (np.zeros(4, np.int32), {}, TypeError, "value must be an int, .* not ndarray"),
    (np.zeros(4, np.float32), {}, TypeError, "value must be an int, .* not ndarray"),
    (b"", {}, ValueError, "value has 0 bytes; a fill repeats 1, 2, 4 or 8 of them"),
    (b"abc", {}, ValueError, "value has 3 bytes"),
    (bytes(16), {}, ValueError, "value has 16 bytes"),
    (np.complex128(1), {}, ValueError, "value has 16 bytes"),
    (b"ab", {"width": 4}, ValueError, "value has 2 bytes, which is not its width"),
    (np.float32(1), {"width": 8}, ValueError, "value has 4 bytes, which is not its width"),
    (1.5, {"width": 1}, ValueError, "a float has 2, 4 or 8 bytes, not 1"),
    (1e6, {"width": 2}, ValueError, "value does not fit into float16"),
    (1e300, {"width": 4}, ValueError, "value does not fit into float32"),
    (1, {"width": "4"}, TypeError, "width must be an integer, not str"),
    (1, {"width": 16}, ValueError, "width must be 1, 2, 4 or 8"),
    (1, {"width": -1}, ValueError, "width must be 1, 2, 4 or 8"),
    (1, {"width": 4, "dtype": "int32"}, TypeError, "width and dtype both say how large the value is"),
    (1.0, {"dtype": "int32"}, TypeError, "value must be an integer for int32, not float"),
    (np.float32(1), {"dtype": "uint8"}, TypeError, "value must be an integer for uint8, not float32"),
    ("1", {"dtype": "float32"}, TypeError, "value must be a number for float32, not str"),
    ("1", {"dtype": "complex64"}, TypeError, "value must be a number for complex64, not str"),
    (1j, {"dtype": "float32"}, TypeError, "value must be a number for float32, not complex"),
    ("yes", {"dtype": "bool"}, TypeError, "value must be a bool, not str"),
    (1, {"dtype": "complex128"}, ValueError, "complex128 has 16 bytes; a fill repeats 1, 2, 4 or 8 of them"),
    (1, {"dtype": "float7"}, ValueError, "no element type 'float7'; there are uint8"),
])
def test_what_fills_nothing(pageable, value, options, error, words):
    buffer = pageable.filled(64, 1)
    with pytest.raises(error, match=words):
        buffer.fill(value, stream=pageable.stream, **options)
    assert pageable.bytes_of(buffer) == b"\1" * 64


def test_the_size_is_a_multiple_of_the_value(pageable):
    buffer = pageable.allocate(6)
    with pytest.raises(weir.Error, match="6 bytes") as raised:
        buffer.fill(1.0, stream=pageable.stream)
    assert raised.value.condition == weir.Errc.invalid_argument
