# SPDX-License-Identifier: Apache-2.0
"""A worker that uses weir fills memory of a pool of cuda.core's, without a copy. Says so where there is no GPU."""

import multiprocessing
import sys

import weir


def fill(link):
    device = weir.device("cuda:0")
    stream = weir.Stream(device)
    pool = weir.cuda.ImportedPool(device, link.recv())
    with pool.open(link.recv(), stream=stream) as buffer:
        buffer.fill(1.5, dtype="float32", stream=stream)
        stream.synchronize()
    link.send("filled")  # after the close: cuda.core may give the memory back from now on


def main():
    try:
        from cuda.core import Device, DeviceMemoryResource, DeviceMemoryResourceOptions
    except ImportError:
        print("skipped: cuda.core is not installed")
        return 77
    if not any(device.backend == "cuda" for device in weir.devices()):
        print("skipped: no CUDA device")
        return 77
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    resource = DeviceMemoryResource(device, DeviceMemoryResourceOptions(ipc_enabled=True))
    buffer = resource.allocate(4096, stream=stream)
    stream.sync()

    spawn = multiprocessing.get_context("spawn")
    link, theirs = spawn.Pipe()
    worker = spawn.Process(target=fill, args=(theirs,))
    worker.start()
    link.send(resource.allocation_handle)
    link.send(buffer.ipc_descriptor)
    print("the worker:", link.recv())
    worker.join()
    tensor = weir.from_dlpack(buffer)
    print(bytes(tensor.buffer)[:4])
    return 0


if __name__ == "__main__":
    sys.exit(main())
