# SPDX-License-Identifier: Apache-2.0
"""What processes do in test_cuda_core_ipc.py with memory of a driver's pool of their parent."""

import weir


def rewrite(link):
    """Take (file, descriptor or bytes, size or None), add one to the memory, and answer with what was there."""
    try:
        device = weir.device("cuda:0")
        stream = weir.Stream(device)
        pool = weir.cuda.ImportedPool(device, link.recv())
        while (name := link.recv()) is not None:
            with pool.open(*name, stream=stream) as buffer, pool.open(*name, stream=stream) as again:
                found = set(bytes(buffer))
                assert again.handle == buffer.handle and len(found) == 1, found
                buffer.fill(found.copy().pop() + 1, stream=stream)
                stream.synchronize()
            link.send(found.pop())
    except (weir.Error, AssertionError) as error:
        link.send(f"{type(error).__name__}: {error}")


def rewrite_by_cuda_core(link):
    """The same with cuda.core: take its memory resource, or a file, and descriptors."""
    from cuda.core import Buffer, Device, DeviceMemoryResource

    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    mapped = DeviceMemoryResource.from_allocation_handle(device, link.recv().detach())
    while (descriptor := link.recv()) is not None:
        buffer = Buffer.from_ipc_descriptor(mapped, descriptor, stream=stream)
        buffer.fill(9, stream=stream)
        stream.sync()
        size = buffer.size
        buffer.close()
        stream.sync()
        link.send(size)
