# SPDX-License-Identifier: Apache-2.0
"""CUDA memory for consumers on streams of their own."""

import ctypes
import os

import capsules
import pytest
from gates import Gate

import weir

CPU = (1, 0)
LEGACY = 1
PAGE = 1 << 20


class NativeStream:
    """A stream of the application, by its handle."""

    def __init__(self, device):
        self.driver = ctypes.CDLL(os.environ.get("WEIR_CUDA_LIBRARY", "libcuda.so.1"))
        context, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        assert self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device.ordinal) == 0
        assert self.driver.cuCtxSetCurrent(context) == 0
        assert self.driver.cuStreamCreate(ctypes.byref(self.stream), 1) == 0

    @property
    def handle(self):
        return self.stream.value

    def synchronize(self):
        assert self.driver.cuStreamSynchronize(self.stream) == 0

    def destroy(self):
        assert self.driver.cuStreamDestroy_v2(self.stream) == 0


@pytest.mark.parametrize("copy", [None, True])
def test_a_stream_may_be_destroyed_before_the_tensor_of_cuda(cuda, copy):
    pool = weir.current_resource(cuda.device)
    for _ in range(100):
        stream = NativeStream(cuda.device)
        buffer = pool.allocate(1 << 20, stream=cuda.stream)
        buffer.fill(1, stream=cuda.stream)
        capsule = buffer.__dlpack__(stream=stream.handle, copy=copy, max_version=(1, 3))
        assert capsules.managed(capsule).tensor.device_type == 2
        buffer.close()
        del buffer
        stream.destroy()
        del capsule
    other = weir.Stream(cuda.device)
    pool.allocate(1 << 20, stream=other).fill(2, stream=other)
    other.synchronize()
    assert pool.stats()["in_use"] == 0


@pytest.mark.parametrize("stream", [None, -1, 1, 2])
def test_the_cpu_gets_complete_cuda_memory_whatever_the_stream(cuda, stream):
    buffer = cuda.filled(4096, 7)
    capsule = buffer.__dlpack__(stream=stream, dl_device=CPU, max_version=(1, 3))
    struct = capsules.managed(capsule)
    assert (struct.tensor.device_type, struct.flags) == (1, capsules.IS_COPIED)
    assert ctypes.string_at(struct.tensor.data, 4096) == b"\7" * 4096


@pytest.mark.parametrize("stream", [0, -2])
def test_streams_that_mean_nothing_are_refused_for_cuda_memory(cuda, stream):
    for device in (None, CPU):
        with pytest.raises(ValueError, match="0 is ambiguous"):
            cuda.allocate(16).__dlpack__(stream=stream, dl_device=device)


def test_the_array_interface_of_cuda_memory(cuda):
    buffer = cuda.filled(4096, 7)
    assert buffer.__cuda_array_interface__ == {
        "shape": (4096,), "typestr": "|u1", "data": (buffer.device_address, False), "version": 3, "stream": LEGACY,
    }


def test_a_consumer_of_the_array_interface_comes_after_the_work_on_cuda_memory(cuda):
    legacy = weir.borrow_cuda_stream(cuda.device, LEGACY)
    buffer = cuda.allocate(4096)
    with Gate(cuda.stream):
        buffer.fill(7, stream=cuda.stream)
        assert legacy.synchronize()
        assert buffer.__cuda_array_interface__["stream"] == LEGACY
        assert legacy.synchronize(timeout=0.05) is False
    assert legacy.synchronize()


def test_cuda_memory_is_used_again_after_the_work_of_an_array_interfaces_consumer(cuda):
    legacy = weir.borrow_cuda_stream(cuda.device, LEGACY)
    pool = weir.make_pool(
        weir.make_resource(cuda.device), limit=PAGE, segment_bytes=PAGE, paged=False, patience=0, reuse="passed_only"
    )
    buffer = pool.allocate(PAGE, stream=cuda.stream)
    with Gate(legacy):
        assert buffer.__cuda_array_interface__["stream"] == LEGACY
        buffer.close()
        assert pool.try_allocate(PAGE, stream=cuda.stream) is None
    pool.trim(PAGE)  # waits for the work, and keeps the memory
    assert pool.try_allocate(PAGE, stream=cuda.stream).size == PAGE
