# SPDX-License-Identifier: Apache-2.0
"""An array that grows in stream order."""

import array
import threading

import numpy as np
import pytest

import weir


def elements(vector, stream):
    out = np.empty(len(vector), vector.dtype)
    vector.copy_to(out, stream=stream)
    stream.synchronize()
    return out.tolist()


def test_it_grows(memory):
    stream = memory.stream
    vector = weir.DeviceVector(memory.resource, "int32", stream=stream)
    assert (len(vector), vector.size, vector.capacity) == (0, 0, 0) and vector
    assert (vector.dtype, vector.itemsize, vector.device) == ("int32", 4, memory.device)
    vector.push(np.arange(3, dtype="int32"), stream=stream)
    assert (len(vector), vector.capacity) == (3, 3)
    vector.push(array.array("i", [3]), stream=stream)
    assert (len(vector), vector.capacity) == (4, 6)
    vector.append(4, stream=stream)
    vector.append(np.int32(5), stream=stream)
    assert vector.capacity == 6 and elements(vector, stream) == [0, 1, 2, 3, 4, 5]
    vector.push(np.arange(20, dtype="int32")[6::2], stream=stream)  # has gaps
    assert elements(vector, stream) == [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 18]
    assert repr(vector) == f"<weir.DeviceVector 13 of 13 int32 on {memory.device.id}>"


def test_sizes(memory):
    stream = memory.stream
    vector = weir.DeviceVector(memory.resource, np.float32, 4, stream=stream)
    vector.copy_from(np.array([1, 2, 3, 4], "float32"), stream=stream)
    vector.reserve(100, stream=stream)
    assert (len(vector), vector.capacity) == (4, 100)
    vector.resize(2, stream=stream)
    vector.reserve(np.int8(3), stream=stream)
    assert (len(vector), vector.capacity) == (2, 100)
    vector.shrink_to_fit(stream=stream)
    assert (len(vector), vector.capacity, vector.buffer.size) == (2, 2, 8)
    vector.resize(3, stream=stream)
    vector.set_element(2, 7, stream=stream)
    assert elements(vector, stream) == [1, 2, 7]
    vector.clear(stream=stream)
    assert (len(vector), vector.capacity) == (0, 3) and elements(vector, stream) == []


def test_elements(memory):
    stream = memory.stream
    vector = weir.DeviceVector(memory.resource, "float64", 3, stream=stream)
    vector.copy_from(np.array([1.5, 2.5, 3.5]), stream=stream)
    assert vector.wait_for_element(1, stream=stream) == 2.5
    vector.set_element(1, b"\0" * 8, stream=stream)
    assert elements(vector, stream) == [1.5, 0, 3.5]
    vector.copy_from(np.array([8.0]), stream=stream, first=2)
    out = vector.copy_to(np.zeros(2), stream=stream, first=1)
    stream.synchronize()
    assert out.tolist() == [0, 8]
    rest = vector.copy_to(stream=stream, first=1)
    assert isinstance(rest, weir.Tensor) and rest.shape == (2,) and rest.buffer.memory_resource.device == memory.device
    half = np.zeros(4)
    vector.copy_to(half[::2], stream=stream, first=1)
    stream.synchronize()
    assert half.tolist() == [0, 0, 8, 0]


def test_types_that_numpy_lacks(pageable):
    stream = pageable.stream
    vector = weir.DeviceVector(pageable.resource, "bfloat16", stream=stream)
    vector.append(1.5, stream=stream)
    assert float(vector.wait_for_element(0, stream=stream)) == 1.5
    lanes = weir.DeviceVector(pageable.resource, "uint8x4", 2, stream=stream)
    lanes.set_element(1, b"abcd", stream=stream)
    assert bytes(lanes.buffer)[4:] == b"abcd"


def test_tensors_are_pushed_in_order_of_the_stream(memory):
    stream = memory.stream
    vector = weir.DeviceVector(memory.resource, "uint8", stream=stream)
    vector.push(memory.filled(3, 7), stream=stream)
    vector.push(memory.filled(8, 9).view("uint8")[::2], stream=stream)
    vector.push(vector.tensor[2:4], stream=stream)  # of its own, while the memory grows
    assert elements(vector, stream) == [7, 7, 7, 9, 9, 9, 9, 7, 9]
    assert vector.capacity == 14


def test_views_keep_to_their_memory(memory):
    stream = memory.stream
    vector = weir.DeviceVector(memory.resource, "uint8", 4, stream=stream)
    vector.copy_from(b"abcd", stream=stream)
    tensor, buffer = vector.tensor, vector.buffer
    vector.push(b"efgh", stream=stream)
    vector.copy_from(b"ABCD", stream=stream)
    assert memory.bytes_of(buffer) == b"abcd" and tensor.shape == (4,)
    assert memory.bytes_of(vector.buffer) == b"ABCDefgh"


def test_dlpack(pageable):
    stream = pageable.stream
    vector = weir.DeviceVector(pageable.resource, "int16", 3, stream=stream)
    vector.reserve(10, stream=stream)
    vector.copy_from(np.array([1, 2, 3], "int16"), stream=stream)
    assert np.from_dlpack(vector).tolist() == [1, 2, 3]
    assert np.from_dlpack(vector).ctypes.data == vector.buffer.host_data
    assert weir.from_dlpack(vector).shape == (3,) and vector.__dlpack_device__() == (1, 0)


def test_arrays(host_memory):
    vector = weir.DeviceVector(host_memory.resource, "int32", 3, stream=host_memory.stream)
    vector.copy_from(np.arange(3, dtype="int32"), stream=host_memory.stream)
    vector.reserve(100, stream=host_memory.stream)
    for array in (np.asarray(vector), vector.__array__(copy=False)):
        assert array.dtype == np.int32 and array.ctypes.data == vector.buffer.host_data
        assert array.tolist() == [0, 1, 2]
    assert np.add(vector, 1).tolist() == [1, 2, 3]
    assert not np.shares_memory(np.array(vector), array)
    assert np.asarray(vector, dtype="float64").tolist() == [0.0, 1.0, 2.0]
    vector.close()
    assert array.tolist() == [0, 1, 2]
    with pytest.raises(weir.Error, match="DeviceVector.__array__: the DeviceVector is closed"):
        np.asarray(vector)


def test_arrays_that_the_host_cannot_reach(device_memory):
    vector = weir.DeviceVector(device_memory.resource, "int32", 3, stream=device_memory.stream)
    with pytest.raises(TypeError, match="NumPy cannot reach"):
        np.asarray(vector)


def test_refusals(pageable):
    stream = pageable.stream
    limit = weir.make_limiting(pageable.resource, 100)
    vector = weir.DeviceVector(limit, "int32", 2, stream=stream)
    vector.copy_from(np.array([1, 2], "int32"), stream=stream)

    def refused(error, call, *arguments, **options):
        with pytest.raises(error) as caught:
            call(*arguments, **options, stream=stream)
        assert elements(vector, stream) == [1, 2] and vector.capacity == 2
        return caught.value

    new = weir.DeviceVector
    assert "no whole number of bytes" in str(refused(ValueError, new, limit, "float4_e2m1fn"))
    refused(ValueError, new, limit, "nothing")
    refused(ValueError, new, limit, "int32", -1)
    refused(weir.OutOfMemory, new, limit, "int32", 1 << 62)
    refused(weir.OutOfMemory, vector.resize, 1 << 62)
    refused(weir.OutOfMemory, vector.push, np.zeros(50, "int32"))
    refused(weir.OutOfMemory, vector.push, weir.from_dlpack(np.zeros(50, "int32")))
    for values in (np.zeros(1, "int64"), np.zeros((1, 1), "int32")):
        for given in (values, weir.from_dlpack(values)):
            assert refused(weir.Error, vector.push, given).condition == weir.Errc.invalid_argument
    refused(TypeError, vector.push, [1, 2])
    refused(TypeError, vector.push, None)
    refused(ValueError, vector.append, 1 << 40)
    refused(TypeError, vector.append, "one")
    refused(TypeError, vector.resize, 1.0)
    for call, arguments in [
        (vector.copy_from, (np.zeros(3, "int32"),)),
        (vector.copy_to, (np.zeros(3, "int32"),)),
        (vector.set_element, (2, 0)),
        (vector.wait_for_element, (2,)),
    ]:
        error = refused(weir.Error, call, *arguments)
        assert error.condition == weir.Errc.invalid_argument and "of 2" in str(error)
    refused(weir.Error, vector.copy_from, np.zeros(2, "int32"), first=1)
    refused(weir.Error, vector.copy_to, first=3)
    refused(TypeError, vector.copy_from, 5)
    vector.push(np.zeros(8, "int32"), stream=stream)  # twice as much is too much beside the old memory
    assert len(vector) == 10 and vector.capacity == 10


def test_just_enough_where_twice_as_much_is_too_much(pageable):
    stream = pageable.stream
    for values in (b"x" * 5, weir.from_dlpack(np.zeros(5, "uint8"))):
        vector = weir.DeviceVector(weir.make_limiting(pageable.resource, 100), "uint8", 40, stream=stream)
        vector.push(values, stream=stream)
        assert (len(vector), vector.capacity) == (45, 45)


def test_closing(memory):
    stream = memory.stream
    with weir.DeviceVector(memory.resource, "int32", 2, stream=stream) as vector:
        buffer = vector.buffer
    assert vector.is_closed and (vector.size, vector.capacity) == (0, 0)
    assert repr(vector) == "<weir.DeviceVector closed>" and not buffer.is_closed
    vector.close(), vector.close(stream)
    for call in (
        lambda: len(vector), lambda: vector.tensor, lambda: vector.push(b"", stream=stream), lambda: vector.buffer,
        lambda: vector.resize(1, stream=stream), lambda: np.from_dlpack(vector),
    ):
        with pytest.raises(weir.Error, match="DeviceVector.* is closed") as caught:
            call()
        assert caught.value.condition is weir.Errc.closed
    other = weir.DeviceVector(memory.resource, "int32", 2, stream=stream)
    other.close(weir.Stream(memory.device))
    assert other.is_closed


def test_old_memory_goes_back(pageable):
    resource = weir.make_statistics(pageable.resource)
    vector = weir.DeviceVector(resource, stream=pageable.stream)
    for _ in range(100):
        vector.append(1, stream=pageable.stream)
    vector.close()
    pageable.stream.synchronize()
    assert resource.stats()["live_buffers"] == 0


def test_threads(pageable):
    """Each call is one step for all threads."""
    vector = weir.DeviceVector(weir.make_pool(weir.host_device()), "int64", stream=pageable.stream)

    def work(number):
        for _ in range(500):
            vector.push(np.full(3, number), stream=pageable.stream)

    threads = [threading.Thread(target=work, args=[n]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = np.array(elements(vector, pageable.stream)).reshape(-1, 3)
    assert (found == found[:, :1]).all() and np.bincount(found[:, 0]).tolist() == [500] * 4


def test_a_function_that_growth_calls_finds_it_in_use(pageable):
    seen = []

    def spill(failure):
        with pytest.raises(weir.Error, match="an allocation of this vector called") as caught:
            vector.shrink_to_fit(stream=pageable.stream)
        seen.append(caught.value.condition)
        return False

    resource = weir.make_failure_callback(weir.make_limiting(pageable.resource, 10), spill)
    vector = weir.DeviceVector(resource, "uint8", 8, stream=pageable.stream)
    with pytest.raises(weir.OutOfMemory):
        vector.resize(100, stream=pageable.stream)
    assert set(seen) == {weir.Errc.invalid_argument} and len(vector) == 8
    vector.resize(1, stream=pageable.stream)
