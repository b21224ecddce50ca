# SPDX-License-Identifier: Apache-2.0
"""Vulkan's memory on CUDA, where both are one GPU: a real one, or the CPU's driver and the modelled one."""

import os
import subprocess
import sys

import pytest

import weir

CUDA = 2


def shared():
    """Return buffers that both reach: of each Vulkan device that a CUDA device is, 4096 bytes of 7 and their stream."""
    for device in weir.devices():
        if device.backend != "vulkan" or not device.find(weir.MemoryKind.device).exportable:
            continue
        stream = weir.Stream(device)
        buffer = weir.make_pool(weir.make_resource(device, "device", exportable=True)).allocate(4096, stream=stream)
        if buffer.__dlpack_device__()[0] == CUDA:
            buffer.fill(7, stream=stream)
            yield buffer, stream


@pytest.fixture
def buffer():
    found = next(shared(), None)
    if found is None:
        pytest.skip("no GPU here is known to both Vulkan and CUDA")
    found[1].synchronize()  # the tests read on streams of their own
    return found[0]


def cuda_of(buffer):
    return weir.device(f"cuda:{buffer.__dlpack_device__()[1]}")


def bytes_on(device, tensor):
    stream = weir.Stream(device)
    out = bytearray(tensor.buffer.size)
    tensor.buffer.copy_to(out, stream=stream)
    stream.synchronize()
    return bytes(out)


def test_a_tensor_of_vulkan_is_one_of_cuda(buffer):
    tensor = weir.from_dlpack(buffer.view("float32", (32, 32)))
    assert tensor.buffer.device == cuda_of(buffer) and tensor.shape == (32, 32)
    assert bytes_on(cuda_of(buffer), tensor) == bytes([7]) * 4096


@pytest.mark.parametrize("stream", [None, -1, 1, 2])
def test_the_consumer_names_a_stream_of_cuda(buffer, stream):
    capsule = buffer.__dlpack__(stream=stream, max_version=(1, 3))
    assert "dltensor" in repr(capsule)
    with pytest.raises(ValueError, match="ambiguous"):
        buffer.__dlpack__(stream=0)


def test_the_memory_outlives_its_buffer(buffer):
    tensor = weir.from_dlpack(buffer)
    device = cuda_of(buffer)
    buffer.close()
    assert bytes_on(device, tensor) == bytes([7]) * 4096


def test_the_cuda_interface_has_the_address_of_cuda(buffer):
    interface = buffer.__cuda_array_interface__
    address, read_only = interface["data"]
    assert not read_only and address != buffer.device_address
    again = weir.Buffer.from_handle(cuda_of(buffer), address, 4096, buffer, stream=weir.Stream(cuda_of(buffer)))
    assert bytes_on(cuda_of(buffer), again.view("uint8", (4096,))) == bytes([7]) * 4096


def test_the_exchange_api_gives_memory_of_cuda(buffer):
    ffi = pytest.importorskip("tvm_ffi")
    tensor = ffi.from_dlpack(buffer.view("uint8", (4096,)))
    assert str(tensor.device).startswith("cuda")


def test_pytorch_and_cupy_share_it(buffer):
    found = False
    for name in ("torch", "cupy"):
        try:
            framework = __import__(name)
            array = framework.from_dlpack(buffer)
        except (ImportError, RuntimeError):
            continue  # not installed, or not for CUDA
        found = True
        assert int(array.sum()) == 7 * 4096
        array += 1
        assert int(framework.as_tensor(buffer, device="cuda").sum() if name == "torch" else array.sum()) == 8 * 4096
        array -= 1
    if not found:
        pytest.skip("neither PyTorch nor CuPy for CUDA is installed")


def test_all_of_this_over_the_modelled_cuda_driver():
    """The tests above, in a process in which the CPU's Vulkan device and the modelled CUDA device are one GPU."""
    vulkan = [d for d in weir.devices() if d.backend == "vulkan" and not d.is_gpu]
    model = os.environ.get("WEIR_CUDA_LIBRARY", "")
    if not vulkan or "fake_cuda" not in model or "FAKE_CUDA_UUID" in os.environ:
        pytest.skip("needs the CPU's Vulkan driver and the modelled CUDA driver, in processes of their own")
    environment = {**os.environ, "FAKE_CUDA_UUID": str(vulkan[0].uuid)}
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-k", "not modelled", __file__]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "no GPU here is known to both" not in ran.stdout


def test_vulkan_names_memory_of_cuda_that_was_made_for_it(buffer):
    device = cuda_of(buffer)
    stream = weir.Stream(device)
    ours = weir.cuda.make_vmm_resource(device, vulkan=True).allocate(4096, stream=stream)
    if os.environ.get("WEIR_CUDA_LIBRARY"):  # the modelled driver, whose files the CPU's driver does not know
        with pytest.raises(weir.Error, match="does not open memory of CUDA"):
            weir.vulkan.native(ours)
    else:
        native = weir.vulkan.native(ours)
        assert native.buffer != 0 and native.size == 4096
        assert weir.vulkan.native(ours, buffer.device).buffer == native.buffer
    with pytest.raises(weir.Error, match="VmmOptions::vulkan"):
        weir.vulkan.native(weir.cuda.make_vmm_resource(device, exportable=True).allocate(16, stream=stream))
    with pytest.raises(weir.Error, match="is not a Vulkan device"):
        weir.vulkan.native(ours, device)
