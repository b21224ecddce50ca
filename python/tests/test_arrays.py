# SPDX-License-Identifier: Apache-2.0
"""numpy.asarray of a Buffer or Tensor: an array over the memory, or an error that says what to do. Never an object array."""

import sys

import numpy as np
import pytest

import weir

SMALL = "bfloat16 float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz"


def test_arrays_share_host_memory(host_memory):
    buffer = host_memory.filled(64, 7)
    for array in (np.asarray(buffer), buffer.__array__(), np.array(buffer, copy=None), buffer.__array__(copy=False)):
        assert array.dtype == np.uint8 and array.ctypes.data == buffer.host_data and (array == 7).all()
    tensor = buffer.view("int16", (4, 8))[:, ::2]
    for array in (np.asarray(tensor), tensor.__array__()):
        assert array.shape == (4, 4) and array.strides == (16, 4) and array.ctypes.data == buffer.host_data
    buffer.close()
    assert (array == 0x0707).all()


def test_copies_and_other_types_are_copies(pageable):
    buffer = pageable.filled(16, 1)
    for array in (np.array(buffer), buffer.__array__(copy=True), np.asarray(buffer, dtype="int32"), buffer.__array__("int32")):
        assert not np.shares_memory(array, np.asarray(buffer)) and (array == 1).all()
    with pytest.raises(ValueError, match="copy"):
        buffer.__array__("int32", copy=False)


def test_work_is_complete_before_the_array_is_given(host_memory):
    buffer = host_memory.allocate(8 << 20)
    for value in range(10):
        buffer.fill(value, stream=host_memory.stream)
        assert (buffer.__array__() == value).all()


@pytest.mark.parametrize("name", SMALL.split() + ["float8_e8m0fnu"])
def test_types_that_numpy_learns_from_ml_dtypes(pageable, name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = np.dtype(getattr(ml_dtypes, name))
    values = np.array([0.5, 1, 2, 4], dtype=dtype)
    buffer = pageable.allocate(values.nbytes)
    buffer.copy_from(values.view("uint8"), stream=pageable.stream)
    for spelled in (name, dtype, dtype.type):
        tensor = buffer.view(spelled, (2, 2))
        assert str(tensor.dtype) == name and tensor.dtype == dtype and tensor.itemsize == dtype.itemsize
    array = np.asarray(tensor.T)
    assert array.dtype == dtype and array.ctypes.data == buffer.host_data
    assert (array == values.reshape(2, 2).T).all()
    assert np.asarray(tensor, dtype="float32").tolist() == [[0.5, 1], [2, 4]]


@pytest.mark.parametrize("name", SMALL.split())
def test_arrays_of_types_from_ml_dtypes_go_in(pageable, name):
    dtype = np.dtype(getattr(pytest.importorskip("ml_dtypes"), name))
    values = np.array([[0.5, 1, 2], [1, 2, 4]], dtype=dtype)
    stream, resource = pageable.stream, pageable.resource
    tensor, vector = resource.allocate_tensor((3, 2), name, stream=stream), weir.DeviceVector(resource, name, stream=stream)
    tensor.copy_from(values.T, stream=stream)
    assert (np.asarray(tensor) == values.T).all()
    target = np.zeros((3, 2), dtype)
    tensor.copy_to(target, stream=stream)
    buffer, bytes_out = resource.allocate(values.nbytes, stream=stream), np.zeros(6, dtype)
    buffer.copy_from(values[:, ::-1], stream=stream)
    buffer.copy_to(bytes_out, stream=stream)
    vector.push(values[1, ::-1], stream=stream)
    stream.synchronize()
    assert (target == values.T).all()
    assert (bytes_out == values[:, ::-1].ravel()).all()
    assert (np.asarray(vector) == values[1, ::-1]).all()
    target.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        tensor.copy_to(target, stream=stream)
    with pytest.raises(weir.Error, match="float32"):
        resource.allocate_tensor((2, 3), "float32", stream=stream).copy_from(values, stream=stream)
    with pytest.raises(BufferError):
        buffer.copy_to(np.zeros((6, 2), dtype)[:, 1], stream=stream)


@pytest.mark.parametrize("name", SMALL.split())
def test_scalars_of_types_from_ml_dtypes(pageable, name):
    kind = getattr(pytest.importorskip("ml_dtypes"), name)
    stream, resource = pageable.stream, pageable.resource
    tensor, vector = resource.allocate_tensor((3,), name, stream=stream), weir.DeviceVector(resource, name, stream=stream)
    tensor.fill(kind(2), stream=stream)
    vector.append(kind(4), stream=stream)
    buffer = resource.allocate(4, stream=stream)
    buffer.fill(kind(0.5), stream=stream, dtype=name)
    stream.synchronize()
    assert np.asarray(tensor).tolist() == [2] * 3 and np.asarray(vector).tolist() == [4]
    assert np.asarray(buffer.view(name)).tolist() == [0.5] * buffer.view(name).size


def test_small_floats_are_taken_from_nothing_else(pageable):
    ml_dtypes, stream = pytest.importorskip("ml_dtypes"), pageable.stream
    tensor = pageable.resource.allocate_tensor((3,), "float8_e4m3fn", stream=stream)
    for value in (1, 1.0, np.uint8(1), np.float32(1), ml_dtypes.float8_e5m2(1), ml_dtypes.int4(1)):
        words = "value must be the bytes of one element of float8_e4m3fn, or a scalar of that type, not "
        with pytest.raises(TypeError, match=words):
            tensor.fill(value, stream=stream)
        with pytest.raises(TypeError, match=words):
            tensor.buffer.fill(value, stream=stream, dtype="float8_e4m3fn")
    tensor.buffer.fill(b"\x38", stream=stream, dtype="float8_e4m3fn")
    assert np.asarray(tensor).tolist() == [1] * 3
    with pytest.raises((TypeError, ValueError), match="int4|dtype"):
        tensor.copy_from(np.zeros(3, ml_dtypes.int4), stream=stream)


def test_types_that_numpy_does_not_have(pageable, monkeypatch):
    buffer = pageable.filled(12, 0)
    for name in ("uint8x4", "float4_e2m1fnx2", "float6_e2m3fnx4"):
        with pytest.raises(TypeError, match=f"NumPy has no {name}.*view the buffer as integers"):
            np.asarray(buffer.view(name))
    for name in ("uint8x4", "bfloat16"):
        with pytest.raises((RuntimeError, BufferError), match="Unsupported"):
            np.from_dlpack(buffer.view(name))
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(TypeError, match="NumPy has no bfloat16 without the package ml_dtypes: view the buffer as"):
        np.asarray(buffer.view("bfloat16"))


def test_memory_out_of_the_hosts_reach_says_what_to_do(device_memory):
    buffer = device_memory.filled(16, 5)
    for thing in (buffer, buffer.view("int32", (2, 2)), buffer.view("bfloat16")):
        for ask in (np.asarray, np.array, np.add.reduce):
            with pytest.raises(TypeError, match=r'cannot reach .* memory of .*: numpy.from_dlpack\(x, device="cpu"\)'):
                ask(thing)
    assert (np.from_dlpack(buffer, device="cpu") == 5).all()


def test_closed_memory(pageable):
    buffer = pageable.allocate(16)
    buffer.close()
    with pytest.raises(weir.Error, match="__array__: the buffer is closed"):
        np.asarray(buffer)


def test_classes_are_types(pageable):
    buffer = pageable.allocate(32)
    for known, name in (
        (bool, "bool"), (int, "int64"), (float, "float64"), (complex, "complex128"),
        (np.longlong, "int64"), (np.ulonglong, "uint64"), (np.intc, "int32"), (np.half, "float16"), (np.bool_, "bool"),
    ):
        assert buffer.view(known).dtype == buffer.view(np.dtype(known)).dtype == name
    for other in (type("float32", (), {}), type("uint8", (bytes,), {"dtype": "uint8"}), str, object, np.floating, np.void):
        with pytest.raises(ValueError, match=f"no element type '(class )?{other.__name__}'; there are"):
            buffer.view(other)


def test_classes_of_other_libraries_are_types(pageable):
    ml_dtypes, jnp = pytest.importorskip("ml_dtypes"), pytest.importorskip("jax.numpy")
    buffer = pageable.allocate(32)
    for known in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, jnp.bfloat16, jnp.float32, jnp.int8, jnp.bool_):
        assert buffer.view(known).dtype == np.dtype(known).name


def test_names_of_types(pageable):
    buffer = pageable.allocate(24)
    lanes = ("uint8x4", "float4_e2m1fnx2", "float6_e3m2fnx4", "float32x2", "int4x2", "uint1x8", "bool8x2")
    for name in (*lanes, "complex32", "handle64"):
        tensor = buffer.view(name)
        assert tensor.dtype == name and buffer.view(tensor.dtype).dtype == name
    assert buffer.view("float4_e2m1fn_x2").dtype == "float4_e2m1fnx2"  # PyTorch's name
    assert buffer.view("float6_e3m2fnx4").itemsize == 3
    for name in ("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fnx2"):
        with pytest.raises(weir.Error, match=f"elements of type {name} are not whole bytes"):
            buffer.view(name)
    with pytest.raises(ValueError, match=r"no element type '\\ud800'; there are uint8"):
        buffer.view("\ud800")
    with pytest.raises(ValueError, match=r"no element type 'float32\\0x'; there are uint8"):
        buffer.view("float32\0x")
    wrong = ("float4", "float8", "uint8x", "uint8x1", "uint8x65536", "x4", "uint8xx4", "complexx2")
    for name in (*wrong, "int4", "int24", "int256", "complex8"):
        with pytest.raises(ValueError, match=f"no element type '{name}'; there are uint8.*float4_e2m1fn"):
            buffer.view(name)
