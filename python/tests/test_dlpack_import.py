# SPDX-License-Identifier: Apache-2.0
"""weir.from_dlpack: tensors of others."""

import ctypes
import gc
import weakref

import capsules
import numpy as np
import pytest

import weir


class Producer:
    """Passes an array on with an older signature of __dlpack__, or with a broken one."""

    def __init__(self, array, capsule=None):
        self.array = array
        self.capsule = capsule

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__() if self.capsule is None else self.capsule

    def __dlpack_device__(self):
        return (1, 0)


def test_writes_are_seen_on_both_sides():
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    tensor = weir.from_dlpack(array)
    assert tensor.dtype == "int32" and tensor.shape == (3, 4) and tensor.strides == (4, 1)
    assert tensor.buffer.host_data == array.ctypes.data and tensor.buffer.size == array.nbytes
    assert tensor.device == weir.host_device()
    assert not tensor.is_read_only and tensor.is_contiguous
    stream = weir.Stream(weir.host_device())
    tensor.buffer.fill(5, stream=stream, width=4)
    stream.synchronize()
    assert (array == 5).all()


def test_the_producer_lives_as_long_as_the_tensor():
    array = np.arange(100)
    alive = weakref.ref(array)
    tensor = weir.from_dlpack(array)
    part = tensor.buffer.slice(0, 8)
    del array, tensor
    gc.collect()
    assert alive() is not None
    part.close()
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a[::2],
        lambda a: a.T,
        lambda a: a[:, 3:7],
        lambda a: a[::-1],
        lambda a: a[:, ::-3],
        lambda a: a[4:5, 5:6],
        lambda a: a[2, 3],
        lambda a: a[:0],
        lambda a: np.broadcast_to(a[:1], (4, 10)),
    ],
    ids=["rows", "transposed", "columns", "reversed", "backwards", "one", "scalar", "empty", "broadcast"],
)
def test_strided_arrays_come_back_as_they_are(change):
    array = change(np.arange(100, dtype=np.float64).reshape(10, 10))
    array = np.asarray(array)
    back = np.from_dlpack(weir.from_dlpack(array))
    assert back.shape == array.shape
    assert (back == array).all()
    if array.size:
        assert back.ctypes.data == array.ctypes.data
    copy = np.from_dlpack(weir.from_dlpack(array), copy=True)
    assert (copy == array).all()
    assert not np.shares_memory(copy, array) or array.size == 0


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
def test_arrays_without_elements_have_no_gaps(shape):
    for array in (np.empty(shape), np.empty(shape).T, np.empty((4, 4))[:0, ::2]):
        assert weir.from_dlpack(array).is_contiguous and array.flags.c_contiguous
        assert bytes(memoryview(weir.from_dlpack(array))) == b""


@pytest.mark.parametrize("dtype", ["bool", "uint8", "float16", "complex128"])
def test_element_types(dtype):
    array = np.ones(5, dtype=dtype)
    tensor = weir.from_dlpack(array)
    assert tensor.dtype == dtype
    assert (np.from_dlpack(tensor) == array).all()


def test_producers_that_know_no_version():
    array = np.arange(5)
    tensor = weir.from_dlpack(Producer(array))
    assert tensor.buffer.host_data == array.ctypes.data


def test_bare_capsules():
    array = np.arange(5)
    for capsule in (array.__dlpack__(), array.__dlpack__(max_version=(1, 0))):
        tensor = weir.from_dlpack(capsule)
        assert tensor.buffer.host_data == array.ctypes.data
        assert capsules.name(capsule).startswith("used_dltensor")
        with pytest.raises(ValueError, match="consumed already"):
            weir.from_dlpack(capsule)


def test_weirs_own_tensors(host_memory):
    buffer = host_memory.filled(64, 3)
    tensor = weir.from_dlpack(buffer.view("int16", (4, 8)), stream=host_memory.stream)
    assert tensor.buffer.host_data == buffer.host_data
    buffer.close()
    assert bytes(tensor.buffer) == b"\3" * 64


def test_the_stream_given_is_the_one_of_the_buffer(memory):
    array = np.full(1000, 9, dtype=np.uint8)
    tensor = weir.from_dlpack(array, stream=memory.stream)
    there = memory.allocate(1000)
    there.copy_from(tensor, stream=memory.stream)
    assert memory.bytes_of(there) == b"\x09" * 1000


@pytest.mark.parametrize("thing", [None, 3, "text", [1, 2]])
def test_objects_without_the_protocol(thing):
    with pytest.raises(TypeError, match="from_dlpack needs an object with __dlpack__"):
        weir.from_dlpack(thing)


@pytest.mark.parametrize("capsule", [3, "text", (1, 2)])
def test_producers_must_return_a_capsule(capsule):
    with pytest.raises(TypeError, match="did not return a DLPack capsule"):
        weir.from_dlpack(Producer(None, capsule))


def test_errors_of_the_producer_come_through():
    class Refuses(Producer):
        def __dlpack__(self, **arguments):
            asked.append(arguments)
            raise BufferError("not this one")

    asked = []
    with pytest.raises(BufferError, match="not this one"):
        weir.from_dlpack(Refuses(None))
    assert len(asked) == 1


class Forged:
    """A capsule around a struct made here; counts calls of its deleter."""

    def __init__(self, **changes):
        self.data = (ctypes.c_int32 * 6)(*range(6))
        self.shape = (ctypes.c_int64 * 2)(2, 3)
        self.strides = (ctypes.c_int64 * 2)(3, 1)
        self.deleted = 0
        self.deleter = capsules._LegacyDeleter(self._delete)
        self.struct = capsules.Versioned(1, 3, None, self.deleter, 0)
        tensor = self.struct.tensor
        tensor.data, tensor.device_type, tensor.ndim = ctypes.addressof(self.data), 1, 2
        tensor.code, tensor.bits, tensor.lanes = 0, 32, 1
        tensor.shape = ctypes.cast(self.shape, ctypes.POINTER(ctypes.c_int64))
        tensor.strides = ctypes.cast(self.strides, ctypes.POINTER(ctypes.c_int64))
        for name, value in changes.items():
            setattr(self.struct if hasattr(self.struct, name) else tensor, name, value)

    def _delete(self, _):
        self.deleted += 1

    def capsule(self):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.struct), b"dltensor_versioned", None)


def test_a_forged_tensor_is_understood():
    forged = Forged()
    tensor = weir.from_dlpack(forged.capsule())
    assert np.from_dlpack(tensor).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert forged.deleted == 0
    del tensor
    gc.collect()
    assert forged.deleted == 1


def test_complex_numbers_of_four_bytes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    if not hasattr(ml_dtypes, "complex32"):
        pytest.skip("this ml_dtypes has no complex32")
    forged = Forged(code=5, bits=32, ndim=1)
    forged.shape[0], forged.strides[0] = 4, 1
    array = np.asarray(weir.from_dlpack(forged.capsule()))
    assert array.dtype == ml_dtypes.complex32 and array.shape == (4,)
    assert array.view("int32").tolist() == [0, 1, 2, 3]


def test_the_deleter_is_called_beside_an_exception():
    forged = Forged()
    with pytest.raises(IndexError):
        weir.from_dlpack(forged.capsule())[99]
    gc.collect()
    assert forged.deleted == 1


def test_the_byte_offset_counts():
    forged = Forged(byte_offset=8, ndim=1)
    forged.shape[0], forged.strides[0] = 4, 1
    assert np.from_dlpack(weir.from_dlpack(forged.capsule())).tolist() == [2, 3, 4, 5]


def test_small_types_in_pairs_are_packed():
    forged = Forged(code=17, bits=4, lanes=2, ndim=1)
    forged.shape[0], forged.strides[0] = 24, 1
    tensor = weir.from_dlpack(forged.capsule())
    assert (tensor.dtype, tensor.nbytes, tensor.buffer.size) == ("float4_e2m1fnx2", 24, 24)
    back = capsules.managed(tensor.__dlpack__(max_version=(1, 3)))
    assert (back.tensor.code, back.tensor.bits, back.tensor.lanes, back.flags) == (17, 4, 2, 0)
    whole = weir.from_dlpack(Forged(flags=capsules.PADDED).capsule())  # of types of whole bytes the flag says nothing
    assert np.from_dlpack(whole).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_missing_strides_mean_compact():
    forged = Forged(strides=None)
    assert np.from_dlpack(weir.from_dlpack(forged.capsule())).tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    "changes, condition, message",
    [
        ({"major": 2}, "incompatible", "version 2"),
        ({"major": 0}, "incompatible", "version 0"),
        ({"ndim": -1}, "invalid_argument", "dimensions"),
        ({"ndim": 1000}, "invalid_argument", "dimensions"),
        ({"shape": None}, "invalid_argument", "shape is null"),
        ({"data": None}, "invalid_argument", "data is null"),
        ({"lanes": 0}, "invalid_argument", "int32x0"),
        ({"bits": 0}, "invalid_argument", "int0"),
        ({"device_type": 10}, "unsupported", "device type 10"),
        ({"device_type": 2, "device_id": 99}, "unsupported", "device type 2"),
        ({"byte_offset": (1 << 64) - 1}, "invalid_argument", "address space"),
        ({"code": 17, "bits": 4}, "invalid_argument", "float4_e2m1fn are not whole bytes"),
        ({"code": 17, "bits": 4, "lanes": 2, "flags": capsules.PADDED}, "unsupported", "padded to whole bytes"),
    ],
)
def test_a_wrong_field_is_named_and_the_tensor_given_back(changes, condition, message):
    forged = Forged(**changes)
    with pytest.raises(weir.Error, match=message) as raised:
        weir.from_dlpack(forged.capsule())
    assert raised.value.condition == getattr(weir.Errc, condition)
    assert forged.deleted == 1


@pytest.mark.parametrize("extents", [(-1, 3), (1 << 62, 1 << 62)])
def test_senseless_extents(extents):
    forged = Forged()
    forged.shape[0], forged.shape[1] = extents
    with pytest.raises((weir.Error, weir.OutOfMemory)):
        weir.from_dlpack(forged.capsule())
    assert forged.deleted == 1


class Older:
    """A producer of DLPack before 1.0, which cannot say whether its tensor may be written."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


def test_what_cannot_say_that_it_is_read_only_is_not_written():
    array = np.arange(12, dtype=np.int32)
    tensor = weir.from_dlpack(Older(array))
    assert tensor.is_read_only
    with pytest.raises(weir.Error, match="read-only"):
        tensor.buffer.fill(1, stream=weir.Stream(weir.host_device()))
    assert (np.from_dlpack(tensor) == np.arange(12)).all()
    assert not weir.from_dlpack(array).is_read_only


@pytest.mark.parametrize("device, error, words", [
    (("1", 0), TypeError, "the type that __dlpack_device__ gives must be an integer, not str"),
    ((1.5, 0), TypeError, "the type that __dlpack_device__ gives must be an integer, not float"),
    ((1, None), TypeError, "the number that __dlpack_device__ gives must be an integer, not NoneType"),
    ((2**40, 0), ValueError, r"__dlpack_device__ gives a device that there cannot be: \(1099511627776, 0\)"),
    ((1, -(2**31) - 1), ValueError, r"__dlpack_device__ gives a device that there cannot be: \(1, -2147483649\)"),
])
def test_what_is_no_device(device, error, words):
    class Producer(Older):
        def __dlpack_device__(self):
            return device

    with pytest.raises(error, match=words):
        weir.from_dlpack(Producer(np.arange(12)))


def test_numbers_of_devices_are_integers_of_any_class():
    class Producer(Older):
        def __dlpack_device__(self):
            return np.int32(1), np.uint8(0)

    assert weir.from_dlpack(Producer(np.arange(12))).shape == (12,)
