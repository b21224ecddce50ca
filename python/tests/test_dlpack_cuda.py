# SPDX-License-Identifier: Apache-2.0
"""CUDA memory for consumers on streams of their own."""

import ctypes
import os

import capsules
import pytest

import weir

CPU = (1, 0)


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
