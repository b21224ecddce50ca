# SPDX-License-Identifier: Apache-2.0
"""Vulkan's memory as an array of PyTorch or CuPy on the same GPU, without a copy. Says so where there is no such GPU."""

import importlib
import sys

import weir

CUDA = 2  # kDLCUDA of dlpack.h


def shared_buffer():
    """Return a buffer of Vulkan that CUDA reaches, and its stream; None where no GPU is known to both."""
    for device in weir.devices():
        if device.backend != "vulkan":
            continue
        try:
            pool = weir.make_pool(weir.make_resource(device, "device", exportable=True))
        except weir.WeirError:
            continue  # its driver shares no memory
        stream = weir.Stream(device)
        buffer = pool.allocate(4096, stream=stream)
        if buffer.__dlpack_device__()[0] == CUDA:
            return buffer, stream
    return None


def framework():
    for name in ("torch", "cupy"):
        try:
            return importlib.import_module(name)
        except ImportError:
            pass
    return None


found, arrays = shared_buffer(), framework()
if found is None or arrays is None:
    print("no GPU here is known to both Vulkan and CUDA" if found is None else "neither PyTorch nor CuPy is installed")
    sys.exit(77)
buffer, stream = found
buffer.fill(1.5, dtype="float32", stream=stream)
array = arrays.from_dlpack(buffer.view("float32", (32, 32)))  # its stream waits for the fill
array *= 2
buffer.close()  # the array owns the memory
assert float(array.sum()) == 3 * 1024
print(f"{stream.device.id}: Vulkan's fill and {arrays.__name__}'s product are in the same memory")
