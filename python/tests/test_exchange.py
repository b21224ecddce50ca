# SPDX-License-Identifier: Apache-2.0
"""DLPack's table of C functions, read with ctypes and used by a library that calls it (apache-tvm-ffi)."""

import ctypes
import gc
import threading

import capsules
import numpy as np
import pytest

import weir

tvm_ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not there")

SetError = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
Allocate = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(capsules.DLTensor), ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, SetError
)
FromObject = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
ToObject = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.py_object))
WorkStream = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


class Table(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocate", Allocate),
        ("from_object", FromObject),
        ("to_object", ToObject),
        ("lend", ctypes.c_void_p),
        ("current_work_stream", WorkStream),
    ]


@pytest.fixture
def table():
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return Table.from_address(pointer(weir.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api"))


def allocate(table, shape, device=(1, 0), dtype=(2, 32, 1)):
    """The struct, or what the error function was told."""
    extents = (ctypes.c_int64 * len(shape))(*shape)
    prototype = capsules.DLTensor(None, *device, len(shape), *dtype, extents, None, 0)
    out, told = ctypes.c_void_p(1), []
    failed = table.allocate(prototype, out, None, SetError(lambda _, kind, text: told.append((kind, text))))
    assert (failed, out.value is None) in ((0, False), (-1, True))
    return told[0] if failed else capsules.Versioned.from_address(out.value)


def test_the_header(table):
    assert (table.major, table.previous, table.lend) == (1, None, None)
    assert table.minor >= 3


def test_an_exported_tensor_owns_the_memory(table, host_memory):
    tensor = host_memory.filled(96, 5).view("int32", (2, 12))
    address = tensor.buffer.host_data
    out = ctypes.c_void_p()
    assert table.from_object(tensor, out) == 0
    struct = capsules.Versioned.from_address(out.value)
    assert (struct.tensor.data, capsules.shape(struct), capsules.strides(struct)) == (address, (2, 12), (12, 1))
    del tensor
    assert ctypes.string_at(struct.tensor.data, 96) == b"\5" * 96
    assert host_memory.resource.stats()["live_buffers"] == 1
    capsules.delete(struct)
    assert host_memory.resource.stats()["live_buffers"] == 0


def test_an_exported_tensor_is_complete(table, host_memory):
    buffer = host_memory.allocate(8 << 20)
    for value in range(10):
        buffer.fill(value, stream=host_memory.stream)
        out = ctypes.c_void_p()
        assert table.from_object(buffer.view(), out) == 0
        struct = capsules.Versioned.from_address(out.value)
        assert ctypes.string_at(struct.tensor.data + buffer.size - 8, 8) == bytes([value]) * 8
        capsules.delete(struct)


def test_an_imported_tensor_is_ours(table):
    struct = allocate(table, (3, 4))
    array = np.ctypeslib.as_array(ctypes.cast(struct.tensor.data, ctypes.POINTER(ctypes.c_float)), (3, 4))
    array[:] = 7
    made = ctypes.py_object()
    assert table.to_object(ctypes.addressof(struct), made) == 0
    tensor = made.value
    assert isinstance(tensor, weir.Tensor) and tensor.shape == (3, 4) and tensor.dtype == "float32"
    assert (np.from_dlpack(tensor) == 7).all()


def test_memory_is_of_the_current_resource(table):
    host = weir.host_device()
    live = weir.current_resource(host).stats()["live_buffers"]
    struct = allocate(table, (1000,), dtype=(0, 64, 1))
    assert weir.current_resource(host).stats()["live_buffers"] == live + 1
    assert (struct.major, struct.flags, capsules.strides(struct)) == (1, 0, (1,))
    ctypes.memset(struct.tensor.data, 1, 8000)
    capsules.delete(struct)
    assert weir.current_resource(host).stats()["live_buffers"] == live


@pytest.mark.parametrize(
    "arguments, kind, words",
    [
        ({"shape": (2, -1)}, b"ValueError", b"extent -1 is negative"),
        ({"shape": (1 << 62, 1 << 62)}, b"ValueError", b"overflow"),
        ({"shape": (1 << 50,)}, b"MemoryError", b"4 503 599 627 370 496 bytes"),
        ({"shape": (2,), "device": (7, 0)}, b"BufferError", b"not of device type 7"),
        ({"shape": (2,), "device": (2, 99)}, b"", b"cuda:99"),
    ],
)
def test_what_cannot_be_allocated_is_told(table, arguments, kind, words):
    told = allocate(table, **arguments)
    assert told[0].startswith(kind) and words in told[1], told


def test_a_refused_tensor_is_given_back(table):
    struct = allocate(table, (3, 4))
    live = weir.current_resource(weir.host_device()).stats()["live_buffers"]
    struct.tensor.device_type = 7
    with pytest.raises(BufferError, match="not of device type 7"):
        table.to_object(ctypes.addressof(struct), ctypes.py_object())
    assert weir.current_resource(weir.host_device()).stats()["live_buffers"] == live - 1


@pytest.mark.parametrize("device", [(2, 99), (77, -1)])
def test_a_tensor_of_another_version_is_refused_for_it(table, device):
    """What is behind the version may be anything, also where 1.x has the device."""
    deleted = []
    deleter = capsules._LegacyDeleter(deleted.append)
    struct = capsules.Versioned(2, 0, None, deleter, 0, capsules.DLTensor(None, *device))
    with pytest.raises(BufferError, match="the tensor has DLPack version 2.0"):
        table.to_object(ctypes.addressof(struct), ctypes.py_object())
    assert deleted == [ctypes.addressof(struct)]


def test_the_host_has_no_work_stream(table):
    out = ctypes.c_void_p(1)
    assert table.current_work_stream(1, 0, out) == 0 and out.value is None
    with weir.work_stream(weir.Stream(weir.host_device())):
        assert table.current_work_stream(1, 0, out) == 0 and out.value is None


def test_the_work_stream_of_cuda_devices(table, cuda):
    def current():
        out = ctypes.c_void_p(1)
        assert table.current_work_stream(2, cuda.device.ordinal, out) == 0
        return out.value

    inner = weir.Stream(cuda.device)
    assert current() is None
    with weir.work_stream(cuda.stream) as stream:
        assert stream == cuda.stream
        assert current() == cuda.stream.__cuda_stream__()[1]
        with weir.work_stream(inner):
            assert current() == inner.__cuda_stream__()[1]
        seen = []
        other = threading.Thread(target=lambda: seen.append(current()))
        other.start()
        other.join()
        assert seen == [None]
        assert current() == cuda.stream.__cuda_stream__()[1]
    assert current() is None


def test_cuda_memory_is_allocated_and_exported_on_the_work_stream(table, cuda):
    with weir.work_stream(cuda.stream):
        struct = allocate(table, (1000,), device=(2, cuda.device.ordinal))
        made = ctypes.py_object()
        assert table.to_object(ctypes.addressof(struct), made) == 0
        made.value.buffer.fill(3, stream=cuda.stream)
        out = ctypes.c_void_p()
        assert table.from_object(made.value, out) == 0
    exported = capsules.Versioned.from_address(out.value)
    assert (exported.tensor.device_type, exported.tensor.device_id) == (2, cuda.device.ordinal)
    capsules.delete(exported)
    cuda.stream.synchronize()


def test_another_library_takes_tensors_and_gives_them_back():
    stream = weir.Stream(weir.host_device())
    tensor = weir.current_resource(weir.host_device()).allocate(64, stream=stream).view("float32", (4, 4))
    tensor.buffer.fill(2, stream=stream)
    address = tensor.buffer.host_data
    back = tvm_ffi.get_global_func("testing.echo")(tensor)
    assert isinstance(back, weir.Tensor) and back.shape == (4, 4) and back.buffer.host_data == address
    taken = tvm_ffi.from_dlpack(tensor)
    assert tuple(taken.shape) == (4, 4)
    del tensor, back
    gc.collect()
    assert np.from_dlpack(taken).tobytes() == b"\2" * 64


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "uint8x4", "float4_e2m1fnx2"])
def test_another_library_keeps_the_type(pageable, dtype):
    buffer = pageable.filled(64, 1)
    back = weir.from_dlpack(tvm_ffi.from_dlpack(buffer.view(dtype)))
    assert back.dtype == dtype and back.buffer.host_data == buffer.host_data and not back.is_read_only


def test_another_library_takes_what_others_can_address(memory):
    buffer = memory.filled(64, 2)
    if memory.device.backend == "vulkan" and not memory.info.host_accessible:
        with pytest.raises(BufferError, match="not addressable by other frameworks"):
            tvm_ffi.from_dlpack(buffer)
        return
    taken = tvm_ffi.from_dlpack(buffer)
    assert tuple(taken.shape) == (64,)
    assert memory.bytes_of(weir.from_dlpack(taken, stream=memory.stream).buffer) == b"\2" * 64
