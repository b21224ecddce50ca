# SPDX-License-Identifier: Apache-2.0
"""PyTorch, CuPy and JAX, where they are installed; CUDA where there is a GPU."""

import gc

import numpy as np
import pytest

import weir


def cuda_buffer(cuda, value, size=1 << 20):
    return cuda.filled(size, value)


# Both work on the device whose context is current, and JAX leaves that of the last device current.
def torch_on(device):
    torch = pytest.importorskip("torch")
    torch.cuda.set_device(device.ordinal)
    return torch


def cupy_on(device):
    cupy = pytest.importorskip("cupy")
    cupy.cuda.Device(device.ordinal).use()
    return cupy


def test_torch_shares_host_memory(host_memory):
    torch = pytest.importorskip("torch")
    if host_memory.info.dlpack_device != 1:
        pytest.skip("PyTorch takes no memory labelled CUDAHost or CUDAManaged")
    buffer = host_memory.filled(64, 2)
    tensor = torch.from_dlpack(buffer.view("int32", (4, 4)))
    assert tensor.data_ptr() == buffer.host_data and tensor[3, 3] == 0x02020202
    buffer.close()
    tensor[0, 0] = 5
    assert weir.from_dlpack(tensor).buffer.host_data == tensor.data_ptr()


def test_jax_shares_host_memory(pageable):
    pytest.importorskip("jax")
    import jax.numpy as jnp

    array = jnp.from_dlpack(pageable.filled(64, 1).view("int32"))
    assert int(array.sum()) == 16 * 0x01010101


def test_what_torch_refuses_is_refused_in_its_words():
    torch = pytest.importorskip("torch")
    with pytest.raises(BufferError, match="not supported by dlpack"):
        weir.from_dlpack(torch.quantize_per_tensor(torch.randn(()), 0.1, 10, torch.qint8))
    with pytest.raises(BufferError, match="layout other than"):
        weir.from_dlpack(torch.zeros(3).to_sparse())
    with pytest.raises(ValueError, match="device type meta"):
        weir.from_dlpack(torch.zeros(3, device="meta"))


def test_torch_shares_cuda_memory(cuda):
    torch = torch_on(cuda.device)
    buffer = cuda_buffer(cuda, 3)
    tensor = torch.from_dlpack(buffer)
    assert tensor.data_ptr() == buffer.device_address
    assert tensor.device.type == "cuda" and bool((tensor == 3).all())
    tensor.fill_(4)
    torch.cuda.synchronize()
    assert cuda.bytes_of(buffer) == b"\4" * buffer.size
    back = weir.from_dlpack(tensor, stream=cuda.stream)
    assert back.buffer.device_address == tensor.data_ptr() and back.device == cuda.device


def test_torch_side_streams_are_ordered(cuda):
    torch = torch_on(cuda.device)
    side = torch.cuda.Stream()
    buffer = cuda.allocate(64 << 20)
    for value in range(20):
        buffer.fill(value, stream=cuda.stream)
        with torch.cuda.stream(side):
            tensor = torch.from_dlpack(buffer)
            wrong = (tensor != value).sum()
        borrowed = weir.borrow_cuda_stream(cuda.device, side)
        cuda.stream.wait(borrowed.record())
        side.synchronize()
        assert int(wrong) == 0
        del tensor


def test_torch_takes_managed_memory_by_its_interface(cuda):
    torch = torch_on(cuda.device)
    if cuda.device.find(weir.MemoryKind.managed) is None:
        pytest.skip("no managed memory here")
    buffer = weir.make_resource(cuda.device, "managed").allocate(4096, stream=cuda.stream)
    buffer.fill(9, stream=cuda.stream)
    tensor = torch.as_tensor(buffer, device="cuda")
    assert tensor.data_ptr() == buffer.device_address and bool((tensor == 9).all())
    view = torch.from_dlpack(CudaLabelled(buffer, cuda.device.ordinal))
    assert view.data_ptr() == buffer.device_address


class CudaLabelled:
    """Asks for a CUDA label, as an application does for consumers that know no other."""

    def __init__(self, buffer, ordinal):
        self.buffer, self.device = buffer, (2, ordinal)

    def __dlpack__(self, **arguments):
        return self.buffer.__dlpack__(**{**arguments, "dl_device": self.device})

    def __dlpack_device__(self):
        return self.device


def test_cupy_shares_cuda_memory(cuda):
    cupy = cupy_on(cuda.device)
    buffer = cuda_buffer(cuda, 3)
    array = cupy.from_dlpack(buffer.view("uint16"))
    assert array.data.ptr == buffer.device_address and int((array != 0x0303).sum()) == 0
    array[:] = 0x0505
    cupy.cuda.get_current_stream().synchronize()
    assert cuda.bytes_of(buffer) == b"\5" * buffer.size
    assert cupy.asarray(buffer).data.ptr == buffer.device_address
    assert weir.from_dlpack(array, stream=cuda.stream).buffer.device_address == array.data.ptr
    buffer.close()
    assert int(array[-1]) == 0x0505


def test_numpy_copies_cuda_memory(cuda):
    buffer = cuda_buffer(cuda, 6)
    array = np.from_dlpack(buffer, device="cpu")
    assert (array == 6).all()
    with pytest.raises(BufferError, match="without a copy"):
        buffer.__dlpack__(dl_device=(1, 0), copy=False)


def test_streams_of_the_protocol(cuda):
    buffer = cuda_buffer(cuda, 1)
    version, handle = cuda.stream.__cuda_stream__()
    assert version == 0
    for stream in (None, -1, 1, 2, handle):
        buffer.__dlpack__(stream=stream, max_version=(1, 0))
    for stream in (0, -2):
        with pytest.raises(ValueError, match="stream must be None, -1, 1, 2 or a CUDA stream handle"):
            buffer.__dlpack__(stream=stream)
    assert weir.borrow_cuda_stream(cuda.device, handle).device == cuda.device


def test_numpy_reads_pinned_and_managed_memory(cuda):
    for kind, label in (("pinned", 3), ("managed", 13)):
        if cuda.device.find(getattr(weir.MemoryKind, kind)) is None:
            continue
        buffer = weir.make_resource(cuda.device, kind).allocate(4096, stream=cuda.stream)
        buffer.fill(7, stream=cuda.stream)
        assert buffer.__dlpack_device__() == (label, 0)
        array = np.from_dlpack(buffer)
        assert array.ctypes.data == buffer.host_data and (array == 7).all()
        assert np.from_dlpack(buffer, device="cpu").ctypes.data == buffer.host_data


def test_cuda_memory_comes_back_when_consumers_end(cuda):
    torch = torch_on(cuda.device)
    before = cuda.resource.stats()["live_buffers"]
    tensor = torch.from_dlpack(cuda_buffer(cuda, 1))
    assert cuda.resource.stats()["live_buffers"] == before + 1
    del tensor
    gc.collect()
    assert cuda.resource.stats()["live_buffers"] == before


def test_only_cuda_memory_has_the_cuda_interface(memory):
    buffer = memory.allocate(64)
    reachable = memory.device.backend == "cuda" and memory.info.device_accessible
    assert hasattr(buffer, "__cuda_array_interface__") == reachable
