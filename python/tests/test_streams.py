# SPDX-License-Identifier: Apache-2.0
"""Streams, events and truthful timeouts."""

import ctypes
import gc
import os
import time
import weakref

import numpy as np
import pytest

import weir


@pytest.fixture(params=[d.id for d in weir.devices()])
def device(request):
    return weir.device(request.param)


def test_a_new_stream_has_nothing_to_do(device):
    stream = weir.Stream(device)
    assert stream.device == device
    assert stream.done
    assert stream.synchronize() is True
    assert stream.synchronize(timeout=0) is True
    assert stream.record().wait(timeout=1) is True
    stream.flush()


def test_an_empty_event_is_done():
    assert weir.Event().done
    assert weir.Event().wait() is True


def test_streams_are_values_with_identity(device):
    a, b = weir.Stream(device), weir.Stream(device)
    assert a == a and a != b and a != 3
    assert a.id != b.id
    assert len({a, b, a}) == 2


def test_order_between_streams_of_any_two_devices(device):
    host = weir.host_device()
    producer, consumer = weir.Stream(device), weir.Stream(host)
    source = weir.make_resource(device).allocate(1 << 20, stream=producer)
    target = weir.make_resource(host).allocate(1 << 20, stream=consumer)
    for value in range(20):
        source.fill(value, stream=producer)
        consumer.wait(producer.record())
        target.copy_from(source, stream=consumer)
        producer.wait(consumer.record())
    consumer.synchronize()
    assert bytes(target) == bytes([19]) * (1 << 20)


@pytest.mark.parametrize("timeout", [-1, -0.001, float("nan")])
def test_senseless_timeouts_are_refused(device, timeout):
    with pytest.raises(ValueError, match="timeout must be"):
        weir.Stream(device).synchronize(timeout=timeout)


def test_only_cuda_streams_have_a_cuda_handle(device):
    stream = weir.Stream(device)
    if device.backend == "cuda":
        version, handle = stream.__cuda_stream__()
        assert version == 0 and handle > 0
    else:
        assert not hasattr(stream, "__cuda_stream__")


class Foreign:
    def __init__(self, answer):
        self.answer = answer

    def __cuda_stream__(self):
        return self.answer


@pytest.mark.parametrize(
    "handle, error, words",
    [
        *((wrong, TypeError, "a CUDA stream must be an int or an object with __cuda_stream__, not")
          for wrong in (True, "1", 1.5, None)),
        (-1, OverflowError, "a CUDA stream must be at least 0 and fit into 64 bits"),
        (1 << 64, OverflowError, "a CUDA stream must be at least 0 and fit into 64 bits"),
        (Foreign(7), TypeError, "what __cuda_stream__ returns must be a version and a handle, not int"),
        (Foreign((0, 1, 2)), TypeError, "what __cuda_stream__ returns must be a version and a handle, not tuple"),
        (Foreign((0, "1")), TypeError, "the handle of __cuda_stream__ must be an integer, not str"),
        (Foreign((0, -1)), OverflowError, "the handle of __cuda_stream__ must be at least 0"),
        (Foreign(("0", 1)), TypeError, "the version of __cuda_stream__ must be an integer, not str"),
        (Foreign((1, 1)), ValueError, "unknown version of __cuda_stream__"),
    ],
)
def test_borrowing_needs_a_number_or_the_protocol(handle, error, words):
    with pytest.raises(error, match=words):
        weir.borrow_cuda_stream(weir.host_device(), handle)


@pytest.mark.parametrize("handle", [1, np.uint64(1), Foreign((0, 1)), Foreign([np.int64(0), np.int64(1)])])
def test_borrowing_needs_a_cuda_device(handle):
    with pytest.raises(weir.Error):
        weir.borrow_cuda_stream(weir.host_device(), handle)


class Theirs:
    """A CUDA stream that ends with its last owner, as those of frameworks do."""

    def __init__(self):
        self.driver = ctypes.CDLL(os.environ.get("WEIR_CUDA_LIBRARY", "libcuda.so.1"))
        context, self.handle = ctypes.c_void_p(), ctypes.c_void_p()
        assert self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        assert self.driver.cuCtxPushCurrent_v2(context) == 0
        assert self.driver.cuStreamCreate(ctypes.byref(self.handle), 1) == 0
        assert self.driver.cuCtxPopCurrent_v2(ctypes.byref(context)) == 0

    def __cuda_stream__(self):
        return 0, self.handle.value

    def __del__(self):
        assert self.driver.cuStreamDestroy_v2(self.handle) == 0


def test_the_owner_of_a_borrowed_cuda_stream_is_kept(cuda):
    theirs = Theirs()
    alive = weakref.ref(theirs)
    borrowed = weir.borrow_cuda_stream(cuda.device, theirs)
    assert weir.borrow_cuda_stream(cuda.device, theirs.handle.value) == borrowed
    del theirs
    buffer = cuda.resource.allocate(4096, stream=borrowed)
    buffer.fill(1, stream=borrowed)
    point = borrowed.record()
    assert point.wait(60)
    del borrowed, point
    gc.collect()
    assert alive() is not None, "memory was allocated on it"
    buffer.close()
    deadline = time.monotonic() + 30  # a thread of the library lets go of it
    while alive() is not None and time.monotonic() < deadline:
        cuda.resource.trim()
        cuda.stream.synchronize()  # makes the calls that threads without the GIL asked for
    assert alive() is None


def test_a_cuda_stream_that_is_not_borrowed_drops_its_owner(cuda):
    class Failing:
        def __cuda_stream__(self):
            return 0, 2

    owner = Failing()
    alive = weakref.ref(owner)
    with pytest.raises(weir.Error):
        weir.borrow_cuda_stream(weir.host_device(), owner)
    del owner
    assert alive() is None


def test_a_cuda_stream_of_weir_is_itself(cuda):
    assert weir.borrow_cuda_stream(cuda.device, cuda.stream) == cuda.stream
    with pytest.raises(weir.Error):
        weir.borrow_cuda_stream(weir.host_device(), cuda.stream)


@pytest.mark.parametrize("number", [int, np.uint64])
def test_borrowed_cuda_streams_are_the_same_stream(cuda, number):
    version, handle = cuda.stream.__cuda_stream__()
    for theirs in (number(handle), Foreign((version, number(handle)))):
        borrowed = weir.borrow_cuda_stream(cuda.device, theirs)
        assert borrowed.__cuda_stream__() == (0, handle)
