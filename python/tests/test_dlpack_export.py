# SPDX-License-Identifier: Apache-2.0
"""__dlpack__ and __dlpack_device__, as the array API standard 2025.12 has them."""

import threading

import capsules
import numpy as np
import pytest

import weir

CPU = (1, 0)


def test_numpy_sees_the_same_address(host_memory):
    buffer = host_memory.filled(4096, 42)
    array = np.from_dlpack(buffer)
    assert array.ctypes.data == buffer.host_data
    assert array.dtype == np.uint8 and array.shape == (4096,)
    assert (array == 42).all()
    array[:] = 7
    assert host_memory.bytes_of(buffer) == b"\7" * 4096


def test_typed_views(host_memory):
    buffer = host_memory.filled(4 * 6 * 5 + 16, 0)
    array = np.from_dlpack(buffer.view("float32", (6, 5), byte_offset=16))
    assert array.ctypes.data == buffer.host_data + 16
    assert array.dtype == np.float32 and array.shape == (6, 5) and array.strides == (20, 4)
    array[5, 4] = 1.5
    assert host_memory.bytes_of(buffer)[-4:] == np.float32(1.5).tobytes()


@pytest.mark.parametrize(
    "dtype",
    "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64 complex64 complex128".split(),
)
def test_element_types(pageable, dtype):
    buffer = pageable.filled(64, 1)
    for name in (dtype, np.dtype(dtype), getattr(np, dtype + ("_" if dtype == "bool" else ""))):
        array = np.from_dlpack(buffer.view(name))
        assert array.dtype == np.dtype(dtype)
    assert array.tobytes() == b"\1" * 64


def test_data_is_complete_when_it_is_handed_over(host_memory):
    buffer = host_memory.allocate(8 << 20)
    for value in range(10):
        buffer.fill(value, stream=host_memory.stream)
        assert (np.from_dlpack(buffer) == value).all()


def test_uses_on_other_streams_are_complete_too(host_memory):
    other = weir.Stream(host_memory.device)
    buffer = host_memory.filled(8 << 20, 1)
    other.wait(host_memory.stream.record())
    buffer.fill(2, stream=other)
    assert (np.from_dlpack(buffer) == 2).all()


def test_capsule_names_and_versions(host_memory):
    buffer = host_memory.allocate(16)
    for version in (None, (0, 0), (0, 8)):
        assert capsules.name(buffer.__dlpack__(max_version=version)) == "dltensor"
    for version in ((1, 0), (1, 3), (2, 0), (100, 3)):
        capsule = buffer.__dlpack__(max_version=version)
        assert capsules.name(capsule) == "dltensor_versioned"
        assert capsules.managed(capsule).major == 1
    assert capsules.name(buffer.__dlpack__()) == "dltensor"


def test_the_struct(host_memory):
    buffer = host_memory.allocate(96)
    capsule = buffer.view("int32", (2, 3, 4)).__dlpack__(max_version=(1, 3))
    struct = capsules.managed(capsule)
    tensor = struct.tensor
    assert tensor.data == buffer.host_data
    assert (tensor.device_type, tensor.device_id) == buffer.__dlpack_device__()
    assert (tensor.code, tensor.bits, tensor.lanes, tensor.byte_offset) == (0, 32, 1, 0)
    assert capsules.shape(struct) == (2, 3, 4) and capsules.strides(struct) == (12, 4, 1)
    assert struct.flags == 0


def test_zero_bytes(host_memory):
    buffer = host_memory.allocate(0)
    capsule = buffer.__dlpack__(max_version=(1, 0))
    assert capsules.managed(capsule).tensor.data is None
    assert np.from_dlpack(buffer).shape == (0,)
    assert np.from_dlpack(buffer.view("float32", (3, 0))).shape == (3, 0)


def test_scalars(pageable):
    buffer = pageable.filled(8, 0)
    array = np.from_dlpack(buffer.view("float64", ()))
    assert array.shape == () and array == 0.0


def test_copy(host_memory):
    buffer = host_memory.filled(256, 3)
    for copy in (None, False):
        assert np.from_dlpack(buffer, copy=copy).ctypes.data == buffer.host_data
    array = np.from_dlpack(buffer.view("uint16", (4, 32)), copy=True)
    assert array.ctypes.data != buffer.host_data
    assert (array == 0x0303).all()
    array[:] = 0
    assert host_memory.bytes_of(buffer) == b"\3" * 256
    capsule = buffer.__dlpack__(copy=True, max_version=(1, 0))
    assert capsules.managed(capsule).flags == capsules.IS_COPIED


def test_as_memory_of_the_cpu(host_memory):
    buffer = host_memory.filled(64, 9)
    assert buffer.__dlpack_device__() == (host_memory.info.dlpack_device, 0)
    for stream in (None, -1):
        capsule = buffer.__dlpack__(dl_device=CPU, stream=stream, max_version=(1, 0))
        tensor = capsules.managed(capsule).tensor
        assert (tensor.device_type, tensor.device_id, tensor.data) == (1, 0, buffer.host_data)
    assert np.from_dlpack(buffer, device="cpu").ctypes.data == buffer.host_data
    part = np.from_dlpack(buffer.view("uint8", (8,), byte_offset=16), device="cpu")
    assert part.ctypes.data == buffer.host_data + 16


def test_memory_out_of_the_hosts_reach_is_copied(device_memory):
    buffer = device_memory.filled(1024, 5)
    with pytest.raises(BufferError, match="without a copy, because the host cannot reach it"):
        buffer.__dlpack__(dl_device=CPU, copy=False)
    for copy in (None, True):
        array = np.from_dlpack(buffer.view("int32", (16, 16)), device="cpu", copy=copy)
        assert (array == 0x05050505).all()
    capsule = buffer.__dlpack__(dl_device=CPU, max_version=(1, 0))
    assert capsules.managed(capsule).flags & capsules.IS_COPIED
    part = np.from_dlpack(buffer.slice(8, 16).view("uint8", (8,), byte_offset=8), device="cpu")
    assert part.tolist() == [5] * 8


def test_memory_of_vulkan_has_no_address_for_others(device_memory):
    if device_memory.device.backend != "vulkan":
        pytest.skip("about Vulkan's device-local memory")
    buffer = device_memory.allocate(16)
    assert buffer.__dlpack_device__() == (7, device_memory.device.ordinal)
    with pytest.raises(BufferError, match="not addressable by other frameworks"):
        buffer.__dlpack__()


@pytest.mark.parametrize("device", [(2, 0), (10, 0), (1, 1), (99, 99)])
def test_other_devices_are_refused(pageable, device):
    with pytest.raises(BufferError, match=r"DLPack: pageable memory of host:0, which is CPU \(1, 0\), cannot be exported as "):
        pageable.allocate(16).__dlpack__(dl_device=device)


@pytest.mark.parametrize("device", [((1 << 32) + 1, 0), (1, 1 << 32), (-(1 << 31) - 1, 0)])
def test_numbers_that_no_device_has_are_refused(pageable, device):
    with pytest.raises(BufferError, match=r"dl_device: there is no device \("):
        pageable.allocate(16).__dlpack__(dl_device=device)


@pytest.mark.parametrize("stream", [0, 1, 2, 12345, -2])
def test_host_memory_takes_no_stream(pageable, stream):
    with pytest.raises(ValueError, match="stream must be None or -1"):
        pageable.allocate(16).__dlpack__(stream=stream)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"stream": "1"}, "stream must be an int, not str"),
        ({"stream": True}, "stream must be an int, not bool"),
        ({"stream": 1.0}, "stream must be an int, not float"),
        ({"max_version": 1}, "max_version must be a tuple of two ints"),
        ({"max_version": (1,)}, "max_version must be a tuple of two ints"),
        ({"max_version": ("1", 0)}, "max_version must be an int"),
        ({"dl_device": "cpu"}, "dl_device must be a tuple of two ints"),
        ({"dl_device": (1, None)}, "dl_device must be an int"),
        ({"copy": 1}, "copy must be None, True or False"),
        ({"nonsense": 1}, "unexpected keyword argument 'nonsense'"),
        ({"\ud800": 1}, r"unexpected keyword argument '\\ud800'"),
    ],
)
def test_wrong_arguments_are_named(pageable, arguments, message):
    with pytest.raises(TypeError, match=message):
        pageable.allocate(16).__dlpack__(**arguments)


def test_arguments_have_names(pageable):
    with pytest.raises(TypeError, match="keyword arguments only"):
        pageable.allocate(16).__dlpack__(None)


def test_an_unconsumed_capsule_gives_the_memory_back(host_memory):
    before = host_memory.resource.stats()["live_buffers"]
    for version in (None, (1, 0)):
        capsule = host_memory.allocate(4096).__dlpack__(max_version=version)
        assert host_memory.resource.stats()["live_buffers"] == before + 1
        del capsule
        assert host_memory.resource.stats()["live_buffers"] == before


def test_an_unconsumed_capsule_dies_quietly_while_an_exception_propagates(pageable):
    def fail():
        capsule = pageable.allocate(16).__dlpack__(max_version=(1, 0))
        raise KeyError(capsule is not None)

    with pytest.raises(KeyError):
        fail()


def test_two_exports_are_independent(host_memory):
    before = host_memory.resource.stats()["live_buffers"]
    buffer = host_memory.filled(64, 1)
    first, second = np.from_dlpack(buffer), np.from_dlpack(buffer)
    buffer.close()
    del first
    assert second.tobytes() == b"\1" * 64
    del second
    assert host_memory.resource.stats()["live_buffers"] == before


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_the_deleter_runs_on_any_thread_without_the_gil(host_memory, version):
    before = host_memory.resource.stats()["live_buffers"]
    buffer = host_memory.allocate(64)
    struct = capsules.consume(buffer.__dlpack__(max_version=version))
    buffer.close()
    assert host_memory.resource.stats()["live_buffers"] == before + 1
    thread = threading.Thread(target=capsules.delete, args=(struct,))  # ctypes drops the GIL for the call
    thread.start()
    thread.join()
    assert host_memory.resource.stats()["live_buffers"] == before


def test_read_only_memory(pageable):
    source = np.arange(4, dtype=np.float32)
    source.flags.writeable = False
    tensor = weir.from_dlpack(source)
    assert tensor.is_read_only
    array = np.from_dlpack(tensor)
    assert not array.flags.writeable and array.ctypes.data == source.ctypes.data
    with pytest.raises(BufferError, match="cannot say that a tensor is read-only; a consumer of DLPack 1.0 asks with max_version"):
        tensor.__dlpack__()
    assert capsules.managed(tensor.__dlpack__(max_version=(1, 0))).flags == capsules.READ_ONLY
    copy = tensor.__dlpack__(copy=True, max_version=(1, 0))
    assert capsules.managed(copy).flags == capsules.IS_COPIED
    assert np.from_dlpack(tensor, copy=True).flags.writeable
