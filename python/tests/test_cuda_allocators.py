# SPDX-License-Identifier: Apache-2.0
"""Memory of weir by its address, and the modules that give it to frameworks. Where a framework is missing, an object of
the same interface stands in; test_framework_allocators.py has the frameworks themselves."""

import ctypes
import gc
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest
from gates import Gate

import weir
import weir.cupy
import weir.numba
import weir.rmm
import weir.torch

LEGACY = 1
PAGE = 1 << 20


@pytest.fixture
def pool(cuda):
    return weir.make_pool(weir.make_resource(cuda.device), limit=PAGE, segment_bytes=PAGE, paged=False)


@pytest.fixture
def page(cuda):
    """A pool of one buffer. No other stream than its own gets it before all work on it is over."""
    return weir.make_pool(
        weir.make_resource(cuda.device), limit=PAGE, segment_bytes=PAGE, paged=False, patience=0, reuse="passed_only"
    )


def live(resource):
    return resource.stats()["live_buffers"]


def handle_of(stream):
    return stream.__cuda_stream__()[1]


def test_cuda_addresses_in_the_order_of_a_stream(cuda, pool):
    allocator = weir.CudaAllocator(pool)
    first = allocator.allocate(4096, stream=cuda.stream)
    assert first % 256 == 0 and allocator.live == 1 and live(pool) == 1
    allocator.deallocate(first, stream=cuda.stream)
    assert allocator.allocate(4096, stream=cuda.stream) == first
    allocator.deallocate(first)
    assert allocator.allocate(1000, stream=LEGACY, alignment=4096) % 4096 == 0
    assert allocator.allocate(0, stream=LEGACY) == 0
    assert allocator.resource is pool
    del allocator
    gc.collect()
    assert live(pool) == 0


def test_cuda_addresses_refuse(cuda, pool):
    allocator = weir.CudaAllocator(pool)
    with pytest.raises(weir.OutOfMemory, match="limit"):
        allocator.allocate(2 << 20, stream=LEGACY)
    with pytest.raises(ValueError, match="size must not be negative"):
        allocator.allocate(-1, stream=LEGACY)
    with pytest.raises(TypeError, match="a CUDA stream must be"):
        allocator.allocate(1, stream="0")
    with pytest.raises(TypeError):
        allocator.allocate(1)
    assert allocator.live == 0


class CUDAPluggableAllocator:
    def __init__(self, path, allocate, free):
        library = ctypes.CDLL(path)
        self.malloc, self.free = getattr(library, allocate), getattr(library, free)
        self.malloc.restype = ctypes.c_void_p
        self.malloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
        self.free.restype = None
        self.free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]

    def allocator(self):
        return self


def make_torch():
    """What weir.torch uses of PyTorch."""
    cuda = types.SimpleNamespace(memory=types.SimpleNamespace(CUDAPluggableAllocator=CUDAPluggableAllocator))
    cuda.memory.change_current_allocator = lambda pluggable: setattr(cuda, "current", pluggable)
    cuda.MemPool = lambda allocator: types.SimpleNamespace(allocator=allocator)
    return types.SimpleNamespace(cuda=cuda)


@pytest.fixture
def torch_stand_in(monkeypatch):
    torch = make_torch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch.cuda


def test_cuda_functions_for_torch(cuda, pool, torch_stand_in):
    allocator = weir.torch.make_allocator(pool)
    hook = allocator.pluggable
    address = hook.malloc(4096, 0, None)
    assert address and allocator.live == 1 and allocator.last_failure is None
    hook.free(address, 4096, 0, None)
    assert allocator.live == 0
    assert hook.malloc(0, 0, None) is None
    hook.free(None, 0, 0, None)
    allocator.install()
    assert torch_stand_in.current is hook
    assert allocator.mem_pool() is allocator.mem_pool() and allocator.mem_pool().allocator is hook


def test_cuda_functions_for_torch_tell_why_they_failed(cuda, pool, torch_stand_in, capfd):
    allocator = weir.torch.make_allocator(pool)
    assert allocator.pluggable.malloc(2 << 20, 0, None) is None
    assert "limit 1 048 576 bytes" in allocator.last_failure
    assert allocator.pluggable.malloc(16, 7, None) is None
    assert "cuda:7" in allocator.last_failure and "make_allocator" in allocator.last_failure
    assert allocator.pluggable.malloc(16, -1, None) is None
    assert allocator.live == 0


# Nobody here catches the exception of C++, as PyTorch would.
@pytest.mark.parametrize("install", ["", "allocator.install()"], ids=["beside the cache", "installed"])
def test_cuda_functions_for_torch_throw_once_they_are_installed(cuda, install):
    program = f"""
import resource, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import weir, weir.torch
from test_cuda_allocators import make_torch
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
sys.modules["torch"] = make_torch()
allocator = weir.torch.make_allocator(weir.make_limiting(weir.make_resource(weir.device("cuda:0")), 1 << 20))
{install}
print(allocator.pluggable.malloc(2 << 20, 0, None))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    if install:
        assert done.returncode == -signal.SIGABRT and "terminat" in done.stderr, done.stdout + done.stderr
    else:
        assert (done.returncode, done.stdout) == (0, "None\n"), done.stderr


def test_cuda_functions_for_torch_name_the_stream(cuda, page, torch_stand_in):
    hook, other = weir.torch.make_allocator(page).pluggable, weir.Stream(cuda.device)
    legacy = weir.borrow_cuda_stream(cuda.device, 1)  # the default stream: nothing may come back there
    ours, theirs = handle_of(cuda.stream), handle_of(other)
    address = hook.malloc(PAGE, 0, ours)
    with Gate(cuda.stream):
        hook.free(address, PAGE, 0, ours)
        assert hook.malloc(PAGE, 0, theirs) is None
        assert hook.malloc(PAGE, 0, ours) == address
    with Gate(other):
        hook.free(address, PAGE, 0, theirs)
        legacy.synchronize()
        assert hook.malloc(PAGE, 0, ours) is None


def test_cuda_functions_for_torch_are_those_of_their_allocator(cuda, pool, torch_stand_in):
    other = weir.make_limiting(pool, 1 << 16)
    first, second = weir.torch.make_allocator(pool), weir.torch.make_allocator(other)
    address = second.pluggable.malloc(1 << 10, 0, None)
    assert (first.live, second.live, live(other)) == (0, 1, 1)
    second.pluggable.free(address, 1 << 10, 0, None)
    assert second.pluggable.malloc(1 << 17, 0, None) is None
    with pytest.raises(weir.Error, match="two resources for cuda:0"):
        weir.torch.make_allocator(pool, other)
    with pytest.raises(ValueError, match="at least one"):
        weir.torch.make_allocator()


@pytest.fixture
def cupy_stand_in(monkeypatch):
    """What weir.cupy uses of CuPy."""

    class Memory:
        def __init__(self, allocator, size):
            self.free, self.ptr = allocator.free, allocator.allocate(size, 0)

        def __del__(self):
            if hasattr(self, "ptr"):
                self.free(self.ptr, 0)

    class PythonFunctionAllocator:
        def __init__(self, allocate, free):
            self.allocate, self.free = allocate, free

        def malloc(self, size):
            return Memory(self, size)

    cuda = types.SimpleNamespace(PythonFunctionAllocator=PythonFunctionAllocator)
    cuda.current = 0
    cuda.get_current_stream = lambda: types.SimpleNamespace(ptr=cuda.current)
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(cuda=cuda))
    return cuda


def test_cuda_memory_for_cupy(cuda, pool, cupy_stand_in):
    allocate = weir.cupy.make_allocator(pool)
    memory = allocate(4096)
    assert memory.ptr and live(pool) == 1
    del memory
    assert live(pool) == 0
    with pytest.raises(MemoryError, match="limit"):
        allocate(2 << 20)


def test_cuda_memory_for_cupy_is_for_the_current_stream(cuda, page, cupy_stand_in):
    allocate, other = weir.cupy.make_allocator(page), weir.Stream(cuda.device)
    cupy_stand_in.current = handle_of(cuda.stream)
    memory = allocate(PAGE)
    address = memory.ptr
    with Gate(cuda.stream):
        del memory
        cupy_stand_in.current = handle_of(other)
        with pytest.raises(MemoryError):
            allocate(PAGE)
        cupy_stand_in.current = handle_of(cuda.stream)
        assert allocate(PAGE).ptr == address


def test_cuda_memory_for_cupy_is_of_one_device(cuda, pool, cupy_stand_in):
    with pytest.raises(ValueError, match="CUDA device 1"):
        weir.cupy.make_allocator(pool).__self__.allocate(16, 1)


@pytest.fixture
def rmm_stand_in(monkeypatch):
    """What weir.rmm uses of RMM."""
    names = ("rmm", "rmm.mr", "rmm.pylibrmm", "rmm.pylibrmm.stream")
    rmm, mr, pylibrmm, stream = modules = [types.ModuleType(name) for name in names]
    rmm.mr, rmm.pylibrmm, pylibrmm.stream = mr, pylibrmm, stream
    mr.CallbackMemoryResource = lambda allocate, free: types.SimpleNamespace(allocate=allocate, free=free)
    stream.Stream = lambda obj: obj
    for name, module in zip(names, modules):
        monkeypatch.setitem(sys.modules, name, module)
    return rmm


def test_cuda_memory_for_rmm(cuda, pool, rmm_stand_in):
    resource = weir.rmm.make_resource(pool)
    address = resource.allocate(1000, cuda.stream)
    assert live(pool) == 1
    resource.free(address, 1000, cuda.stream)
    assert live(pool) == 0


def test_cuda_memory_for_rmm_is_for_the_stream_that_is_named(cuda, page, rmm_stand_in):
    resource, other = weir.rmm.make_resource(page), weir.Stream(cuda.device)
    address = resource.allocate(PAGE, cuda.stream)
    with Gate(cuda.stream):
        resource.free(address, PAGE, cuda.stream)
        with pytest.raises(MemoryError):
            resource.allocate(PAGE, other)
        assert resource.allocate(PAGE, cuda.stream) == address


def test_cuda_memory_for_rmm_comes_back_on_the_stream_that_is_named(cuda, page, rmm_stand_in):
    resource, other = weir.rmm.make_resource(page), weir.Stream(cuda.device)
    address = resource.allocate(PAGE, cuda.stream)
    with Gate(other):
        resource.free(address, PAGE, other)
        with pytest.raises(MemoryError):
            resource.allocate(PAGE, cuda.stream)
    page.trim(PAGE)  # waits for the work, and keeps the memory
    assert resource.allocate(PAGE, cuda.stream) == address


class Theirs:
    """A resource with RMM's methods, which notes what it is asked for."""

    def __init__(self, pool):
        self.allocator = weir.CudaAllocator(pool)
        self.streams, self.fails = set(), None

    def allocate(self, size, stream):
        if self.fails:
            raise self.fails
        self.streams.add(stream)
        return self.allocator.allocate(size, stream=stream)

    def deallocate(self, address, size, stream):
        self.streams.add(stream)
        self.allocator.deallocate(address, stream=stream)


def test_memory_of_rmm_in_weir(cuda, pool, rmm_stand_in):
    theirs = Theirs(pool)
    ours = weir.rmm.from_resource(theirs, cuda.device)
    assert ours.name == "cuda.rmm" and ours.device == cuda.device
    buffer = ours.allocate(1000, stream=cuda.stream)
    assert live(pool) == 1 and ours.stats()["in_use"] == 1000
    buffer.fill(7, stream=cuda.stream)
    assert set(cuda.bytes_of(buffer)) == {7}
    assert len(theirs.streams) == 1 and cuda.stream not in theirs.streams
    buffer.close()
    ours.trim()
    assert live(pool) == 0 and len(theirs.streams) == 1
    theirs.fails = MemoryError("nothing left")
    with pytest.raises(weir.OutOfMemory, match="nothing left"):
        ours.allocate(1000, stream=cuda.stream)
    theirs.fails = RuntimeError("broken")
    with pytest.raises(RuntimeError, match="broken"):
        ours.allocate(1000, stream=cuda.stream)


def test_memory_of_rmm_that_the_host_reaches(cuda, rmm_stand_in):
    theirs = Theirs(weir.make_resource(cuda.device, "managed"))
    assert not weir.rmm.from_resource(theirs, cuda.device).is_host_accessible
    ours = weir.rmm.from_resource(theirs, cuda.device, host_accessible=True)
    assert ours.is_host_accessible
    buffer = ours.allocate(100, stream=cuda.stream)
    buffer.fill(7, stream=cuda.stream)
    assert bytes(memoryview(buffer)) == b"\7" * 100


# A pool of CUDA's driver, for example, must not end before.
def test_a_resource_of_rmm_ends_after_what_came_back():
    order = []

    class Ends:
        def __del__(self):
            order.append("ended")

    stream = types.SimpleNamespace(synchronize=lambda: order.append("synchronized"))
    lent = weir.rmm._Lent(Ends(), stream, stream)
    del lent
    gc.collect()
    assert order == ["synchronized", "ended"]


def test_memory_of_rmm_is_cudas(pageable):
    with pytest.raises(ValueError, match="must be a CUDA device, not host:0"):
        weir.rmm.from_resource(None, pageable.device)


def test_memory_of_rmm_comes_back_when_its_stream_cannot_wait(cuda, pool, rmm_stand_in):
    lent = weir.rmm._Lent(Theirs(pool), cuda.stream, cuda.stream)
    stream = types.SimpleNamespace(wait=lambda event: (_ for _ in ()).throw(RuntimeError("refused")))
    with pytest.raises(RuntimeError, match="refused"):
        lent.allocate(1000, stream)
    assert live(pool) == 0


@pytest.mark.parametrize(
    "make",
    [weir.torch.make_allocator, weir.cupy.make_allocator, weir.numba.make_memory_manager, weir.rmm.make_resource],
)
def test_a_missing_framework_is_named(make, pageable, monkeypatch):
    name = make.__module__.split(".")[1]
    for missing in (name, f"{name}.cuda"):
        monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=f"weir.{name} needs"):
        make(pageable.resource)


def test_a_missing_rmm_is_named_for_its_resources(cuda, monkeypatch):
    monkeypatch.setitem(sys.modules, "rmm", None)
    with pytest.raises(ImportError, match="weir.rmm needs"):
        weir.rmm.from_resource(None, cuda.device)
