# SPDX-License-Identifier: Apache-2.0
"""weir.numba: with Numba where it is installed, and with an object of the same interface."""

import sys
import types
import weakref

import pytest

import weir
import weir.numba


@pytest.fixture
def pool(cuda):
    return weir.make_pool(weir.make_resource(cuda.device), limit=1 << 20, segment_bytes=1 << 20, paged=False)


def live(resource):
    return resource.stats()["live_buffers"]


@pytest.fixture(params=["installed", "stand_in"])
def numba(request, monkeypatch):
    """What weir.numba uses of Numba."""
    if request.param == "installed":
        pytest.importorskip("numba.cuda", exc_type=ImportError)
        return

    class HostOnlyCUDAMemoryManager:
        def __init__(self, *, context):
            self.context = context

    class MemoryPointer:
        def __init__(self, context, pointer, size, finalizer=None):
            self.device_pointer, self.size = pointer, size
            if finalizer:
                weakref.finalize(self, finalizer)

    module, cuda = types.ModuleType("numba"), types.ModuleType("numba.cuda")
    module.cuda = cuda
    cuda.HostOnlyCUDAMemoryManager, cuda.MemoryPointer = HostOnlyCUDAMemoryManager, MemoryPointer
    monkeypatch.setitem(sys.modules, "numba", module)
    monkeypatch.setitem(sys.modules, "numba.cuda", cuda)


def numba_context(ordinal):
    return types.SimpleNamespace(device=types.SimpleNamespace(id=ordinal))


# Numba can be imported where there is no GPU, but it then has no context.
def test_cuda_memory_for_numba(cuda, pool, numba):
    manager = weir.numba.make_memory_manager(pool)
    here = manager(context=numba_context(0))
    here.initialize()
    assert here.interface_version == 1
    memory = here.memalloc(4096)
    assert memory.size == 4096 and live(pool) == 1
    del memory
    assert live(pool) == 0
    for call in (here.get_memory_info, lambda: here.get_ipc_handle(None)):
        with pytest.raises(NotImplementedError, match="weir"):
            call()
    with pytest.raises(ValueError, match="two resources"):
        weir.numba.make_memory_manager(pool, weir.make_limiting(pool, 1))
    assert isinstance(weir.numba._numba_memory_manager, type)


def test_cuda_memory_for_numba_is_of_the_contexts_device(cuda, pool, numba):
    ordinal = sum(device.backend == "cuda" for device in weir.devices())  # there is no such device
    elsewhere = weir.numba.make_memory_manager(pool)(context=numba_context(ordinal))
    with pytest.raises(weir.Error, match=f"cuda:{ordinal}"):
        elsewhere.memalloc(4096)
    assert live(pool) == 0
