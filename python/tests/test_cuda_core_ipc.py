# SPDX-License-Identifier: Apache-2.0
"""Pools of CUDA's driver between processes: weir on both sides, also over the modelled driver, and cuda.core on one,
where there are it and a GPU."""

import os
import tempfile
from multiprocessing import reduction, resource_sharer

import cuda_pool_child as child
import pytest
from test_dlpack_cuda import NativeStream
from test_messages import Peer

import weir

SIZE = 100_000


class File:
    """A file that is sent in a message, and is its number there."""

    def __init__(self, number):
        self.number = number

    def __reduce__(self):
        return resource_sharer.DupFd.detach, (reduction.DupFd(self.number),)


@pytest.fixture
def exportable(cuda):
    try:
        cuda.resource = weir.cuda.make_async_resource(cuda.device, exportable=True)
    except weir.Error as error:
        pytest.skip(f"no pools here that can be shared: {error}")
    return cuda


@pytest.fixture
def core(cuda):
    if os.environ.get("WEIR_CUDA_LIBRARY"):
        pytest.skip("cuda.core knows only NVIDIA's driver")
    return pytest.importorskip("cuda.core", reason="cuda.core is not installed")


def test_memory_of_a_driver_pool_is_opened_by_its_bytes(exportable):
    with Peer(child.rewrite) as peer:
        file = weir.cuda.export_pool(exportable.resource)
        peer.link.send(File(file))
        os.close(file)
        for value in (3, 5):
            buffer = exportable.filled(SIZE, value)
            exportable.stream.synchronize()
            assert peer.ask((weir.cuda.export_pointer(buffer), SIZE)) == value
            assert exportable.bytes_of(buffer) == bytes([value + 1]) * SIZE
        buffer = exportable.filled(64, 1)
        assert "memory of that name" in peer.ask((bytes(64), 64))


def test_more_than_there_is_of_a_cuda_allocation(exportable):
    buffer = exportable.filled(SIZE, 3)
    exportable.stream.synchronize()
    with Peer(child.rewrite) as peer:
        peer.link.send(File(weir.cuda.export_pool(exportable.resource)))
        assert "does not lie in memory of" in peer.ask((weir.cuda.export_pointer(buffer), SIZE << 20))


def test_names_that_are_no_cuda_pools(exportable):
    with pytest.raises(TypeError):
        weir.cuda.ImportedPool(exportable.device, object())
    with tempfile.TemporaryFile() as file, pytest.raises(weir.Error, match="names no memory pool") as raised:
        weir.cuda.ImportedPool(exportable.device, file)
    assert raised.value.condition == weir.Errc.corrupt_descriptor


def test_other_cuda_memory_has_no_name(exportable):
    plain = weir.make_resource(exportable.device, "async")
    with pytest.raises(weir.Error, match="exportable = true") as raised:
        weir.cuda.export_pool(plain)
    assert raised.value.condition == weir.Errc.unsupported
    with pytest.raises(weir.Error) as raised:
        weir.cuda.export_pointer(plain.allocate(64, stream=exportable.stream))
    assert raised.value.condition == weir.Errc.unsupported
    with pytest.raises(weir.Error, match="inside of its allocation"):
        weir.cuda.export_pointer(exportable.allocate(1024).slice(256, 64))


def test_options_of_a_cuda_pool(cuda):
    resource = weir.cuda.make_async_resource(cuda.device, release_threshold=0, max_size=1 << 26)
    with resource.allocate(1 << 20, stream=cuda.stream) as buffer:
        assert buffer.kind == weir.MemoryKind.async_
    with pytest.raises(weir.OutOfMemory):
        resource.allocate(1 << 28, stream=cuda.stream)


@pytest.mark.parametrize("threshold", [0, None])
def test_the_release_threshold_of_a_cuda_pool(cuda, threshold):
    size, native = 64 << 20, NativeStream(cuda.device)
    stream = weir.borrow_cuda_stream(cuda.device, native.handle)
    resource = weir.cuda.make_async_resource(cuda.device, release_threshold=threshold)
    resource.allocate(size, stream=stream).close()
    native.synchronize()
    reserved = resource.stats()["reserved"]
    assert reserved == 0 if threshold == 0 else reserved >= size


def test_cuda_core_memory_is_opened(core, cuda):
    device = core.Device(cuda.device.ordinal)
    device.set_current()
    stream = device.create_stream()
    resource = core.DeviceMemoryResource(device, core.DeviceMemoryResourceOptions(ipc_enabled=True))
    buffers = [resource.allocate(SIZE, stream=stream) for _ in range(2)]
    with Peer(child.rewrite) as peer:
        peer.link.send(resource.allocation_handle)  # by cuda.core's own pickling
        for value, buffer in enumerate(buffers):
            buffer.fill(value, stream=stream)
            stream.sync()
            assert peer.ask((buffer.ipc_descriptor,)) == value
            seen = weir.from_dlpack(buffer)
            assert set(bytes(seen.buffer)) == {value + 1}
            del seen
            buffer.close()
        peer.link.send(None)
        assert peer.end() == 0


def test_cuda_core_opens_memory(core, exportable):
    with Peer(child.rewrite_by_cuda_core) as peer:
        file = weir.cuda.export_pool(exportable.resource)
        peer.link.send(reduction.DupFd(file))
        os.close(file)
        for _ in range(2):
            buffer = exportable.filled(SIZE, 1)
            exportable.stream.synchronize()
            assert peer.ask(weir.cuda.core_descriptor(buffer)) == SIZE
            assert exportable.bytes_of(buffer) == b"\11" * SIZE
        peer.link.send(None)
        assert peer.end() == 0


@pytest.mark.parametrize("descriptor, words", [
    (b"x", "size is needed beside the bytes of a descriptor"),
    (object(), "descriptor must be one of cuda.core, or bytes beside a size, not object"),
    (None, "descriptor must be one of cuda.core, or bytes beside a size, not NoneType"),
])
def test_what_is_no_descriptor(descriptor, words):
    """Which is found before a pool is asked."""
    with pytest.raises(TypeError, match=words):
        weir.cuda.ImportedPool.open(None, descriptor, stream=None)
