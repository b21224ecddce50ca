# SPDX-License-Identifier: Apache-2.0
"""Frameworks that take their CUDA memory from weir, where they are installed and there is a GPU."""

import gc
import os
import subprocess
import sys

import pytest

import weir
import weir.cupy
import weir.numba
import weir.rmm
import weir.torch


@pytest.fixture
def pool(cuda):
    if "WEIR_CUDA_LIBRARY" in os.environ:
        pytest.skip("frameworks use the real driver")
    return weir.make_pool(weir.make_resource(cuda.device, "vmm"), limit=1 << 30)


def live(resource):
    return resource.stats()["live_buffers"]


def torch_on(device):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("a PyTorch without CUDA")
    torch.cuda.set_device(device.ordinal)
    return torch


def test_torch_allocates_from_a_pool_with_a_limit(cuda, pool):
    torch = torch_on(cuda.device)
    limited = weir.make_limiting(pool, 256 << 20)
    allocator = weir.torch.make_allocator(limited)
    with allocator.use():
        tensor = torch.full((1 << 20,), 3.0, device="cuda")
        assert live(limited) >= 1 and allocator.live >= 1
        assert float(tensor.sum()) == 3 << 20
        with pytest.raises(RuntimeError):  # torch.OutOfMemoryError and AcceleratorError are RuntimeErrors
            torch.empty(512 << 20, dtype=torch.uint8, device="cuda")
    assert "limit 268 435 456 bytes" in allocator.last_failure
    outside = torch.zeros(16, device="cuda")
    assert int(outside.sum()) == 0


def run(program):
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


INSTALLED = """
import torch, weir, weir.torch
device = weir.device("cuda:0")
pool = weir.make_limiting(weir.make_pool(weir.make_resource(device, "vmm")), 1 << 30)
allocator = weir.torch.make_allocator(pool)
allocator.install()
"""


# Only before PyTorch has used CUDA, so in a process of its own.
def test_torch_takes_everything_from_weir(cuda, pool):
    torch_on(cuda.device)
    assert run(INSTALLED + """
side = torch.cuda.Stream()
for i in range(50):
    a = torch.full((1 << 18,), float(i), device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        b = a * 2
        total = b.sum()
    torch.cuda.current_stream().wait_stream(side)
    assert float(total) == i * 2 * (1 << 18), i
assert pool.stats()["live_buffers"] == allocator.live >= 3
del a, b, total
assert allocator.live == 0
try:
    torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
except RuntimeError as error:
    assert "weir: out of memory: 2 147 483 648 bytes asked of limit" in str(error), error
    assert allocator.last_failure in str(error)
else:
    raise SystemExit("the limit did not hold")
print("fine")
""").strip() == "fine"


def test_torch_captures_graphs_over_weir(cuda, pool):
    torch_on(cuda.device)
    assert run(INSTALLED + """
source = torch.ones(1 << 18, device="cuda")
graph = torch.cuda.CUDAGraph()
stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    graph.capture_begin()
    middle = source * 2
    result = middle + 1
    del middle
    graph.capture_end()
torch.cuda.current_stream().wait_stream(stream)
others = [torch.full((1 << 18,), 9.0, device="cuda") for _ in range(8)]  # none of them is the graph's memory
for value in range(5):
    source.fill_(value)
    graph.replay()
    assert float(result.sum()) == (value * 2 + 1) * (1 << 18), value
    assert all(float(other[0]) == 9.0 for other in others)
print("fine")
""").strip() == "fine"


def test_cupy_allocates_from_a_pool(cuda, pool):
    cupy = pytest.importorskip("cupy")
    cupy.cuda.Device(cuda.device.ordinal).use()
    with cupy.cuda.using_allocator(weir.cupy.make_allocator(pool)):
        array = cupy.full(1 << 18, 5, dtype=cupy.int32)
        assert live(pool) >= 1 and int(array.sum()) == 5 << 18
        side = cupy.cuda.Stream(non_blocking=True)
        with side:
            other = array * 2
            assert int(other.sum()) == 10 << 18
        del side, other  # the stream is gone before the next allocation
        again = [cupy.full(1 << 18, i, dtype=cupy.int32) for i in range(8)]
        assert [int(a[-1]) for a in again] == list(range(8))
        with pytest.raises(MemoryError, match="limit"):
            cupy.empty(2 << 30, dtype=cupy.uint8)
    del array, again
    gc.collect()
    assert live(pool) == 0


def test_numba_allocates_from_a_pool(cuda, pool):
    pytest.importorskip("numba.cuda", exc_type=ImportError)
    assert run("""
import numpy as np, numba.cuda, weir, weir.numba
device = weir.device("cuda:0")
pool = weir.make_pool(weir.make_resource(device, "vmm"))
numba.cuda.set_memory_manager(weir.numba.make_memory_manager(pool))
array = numba.cuda.to_device(np.arange(1000, dtype=np.int32))
assert pool.stats()["live_buffers"] == 1
assert array.copy_to_host().sum() == 499500
del array
assert pool.stats()["live_buffers"] == 0
print("fine")
""").strip() == "fine"


def test_rmm_allocates_from_a_pool(cuda, pool):
    rmm = pytest.importorskip("rmm")
    resource = weir.rmm.make_resource(pool)
    before = rmm.mr.get_current_device_resource()
    rmm.mr.set_current_device_resource(resource)
    try:
        buffer = rmm.DeviceBuffer.to_device(b"weir" * 1000)
        assert live(pool) == 1 and buffer.tobytes() == b"weir" * 1000
        del buffer
        assert live(pool) == 0
    finally:
        rmm.mr.set_current_device_resource(before)


@pytest.mark.parametrize("kind", ["CudaMemoryResource", "CudaAsyncMemoryResource", "ManagedMemoryResource"])
def test_weir_allocates_from_resources_of_rmm(cuda, kind):
    if "WEIR_CUDA_LIBRARY" in os.environ:
        pytest.skip("frameworks use the real driver")
    rmm = pytest.importorskip("rmm")
    counted = rmm.mr.StatisticsResourceAdaptor(getattr(rmm.mr, kind)())
    managed = kind.startswith("Managed")
    resource = weir.rmm.from_resource(counted, cuda.device, host_accessible=managed)
    pool = weir.make_tracking(weir.make_pool(resource, initial_bytes=1 << 20))
    assert counted.allocation_counts.current_bytes >= 1 << 20
    buffer = pool.allocate(4000, stream=cuda.stream)
    buffer.fill(7, stream=cuda.stream)
    assert set(cuda.bytes_of(buffer)) == {7} and buffer.is_host_accessible == managed
    buffer.close()
    buffer = resource.allocate(1000, stream=cuda.stream)
    assert counted.allocation_counts.current_count == 2
    buffer.close()
    del buffer, pool
    gc.collect()
    resource.trim()
    assert counted.allocation_counts.current_count == 0
