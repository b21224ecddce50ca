# SPDX-License-Identifier: Apache-2.0
"""The NumPy part of the demo: both see the same memory at the same address, and nothing is copied."""

import os
import sys
import time

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]  # weir/ beside this is not the built one

import weir  # noqa: E402


def host_visible_memory() -> tuple[weir.Device, weir.MemoryKind]:
    """The best memory that both the host and a device can reach; host memory if there is none."""
    for device in weir.devices():
        for kind in device.kinds:
            if kind.host_accessible and kind.device_accessible:
                return device, kind.kind
    host = weir.host_device()
    return host, host.default_kind


def main() -> int:
    device, kind = host_visible_memory()
    stream = weir.Stream(device)
    memory = weir.make_resource(device, kind)
    size = 16 << 20

    with memory.allocate(size, stream=stream) as buffer:
        buffer.fill(0x3F800000, width=4, stream=stream)  # 1.0f, enqueued
        start = time.perf_counter()
        array = np.from_dlpack(buffer.view("float32", (4, size // 16)), device="cpu")  # waits for the fill
        taken = time.perf_counter() - start
        same = array.ctypes.data == buffer.host_data
        filled = bool((array == 1.0).all())

        array *= 2.5  # NumPy writes, the device copies
        twin = buffer.copy_to(stream=stream)
        back = np.empty_like(array)
        twin.copy_to(back, stream=stream)
        start = time.perf_counter()
        stream.synchronize()
        copied = time.perf_counter() - start
        seen = bool((back == 2.5).all())
    alive = float(array[3, -1]) == 2.5  # the buffer is closed, the array keeps the memory

    print(f"NumPy {np.__version__} on {memory.name}, {device.id} ({device.name})")
    print(f"  {size >> 20} MiB at {array.ctypes.data:#x}: {'the same address' if same else 'ANOTHER ADDRESS'}")
    print(f"  the device's fill, seen by NumPy    {'right' if filled else 'WRONG'}   {taken * 1e3:8.2f} ms")
    print(f"  NumPy's writes, seen by the device  {'right' if seen else 'WRONG'}   {copied * 1e3:8.2f} ms")
    print(f"  array alive after Buffer.close      {'right' if alive else 'WRONG'}")
    return 0 if same and filled and seen and alive else 1


if __name__ == "__main__":
    sys.exit(main())
