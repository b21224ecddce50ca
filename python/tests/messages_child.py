# SPDX-License-Identifier: Apache-2.0
"""What processes of multiprocessing do in test_messages.py."""

import os
import warnings

import weir
import weir._messages

SIZE = 100_000
GPU_KINDS = {"cuda": weir.MemoryKind.vmm, "vulkan": weir.MemoryKind.device}


def bytes_of(buffer):
    """As read on a stream of the device, which has not waited for anybody."""
    out = bytearray(buffer.size)
    stream = weir.Stream(buffer.device)
    buffer.copy_to(out, stream=stream)
    stream.synchronize()
    return bytes(out)


def value_of(buffer):
    values = set(bytes_of(buffer))
    assert len(values) == 1, values
    return values.pop()


def add(buffer, number):
    stream = weir.Stream(buffer.device)
    buffer.fill(value_of(buffer) + number, stream=stream)
    stream.synchronize()
    return buffer


def add_one(buffer):
    """Return the memory itself, or new memory where what was received cannot be sent on."""
    add(buffer, 1)
    backend = buffer.device.backend
    return buffer if backend == "host" else make(buffer.device, GPU_KINDS[backend], value_of(buffer))


def describe(thing):
    if isinstance(thing, weir.Tensor):
        return thing.dtype, thing.shape, thing.strides, thing.byte_offset, bytes_of(thing.buffer)
    return repr(thing)


def answer_all(link):
    """Add one to each buffer that comes, and send a buffer back; say how other things look."""
    while (thing := link.recv()) is not None:
        link.send(add_one(thing) if isinstance(thing, weir.Buffer) and thing.size else describe(thing))
        del thing


def add_to_argument(buffer, number):
    add(buffer, number)


def make(device, kind, value):
    stream = weir.Stream(device)
    buffer = weir.make_resource(device, kind, exportable=True).allocate(SIZE, stream=stream)
    buffer.fill(value, stream=stream)  # the message says when this is done
    return buffer


def produce(queue, device, kind, values):
    for value in values:
        queue.put(make(device, kind, value))


def die_after_sending(link, device, kind):
    link.send(make(device, kind, 1))
    os._exit(0)


def end_unheard(link, device, kind):
    weir._messages._MOST_SECONDS = 0.01
    warnings.simplefilter("error")  # a warning at the exit ends as a traceback, and nothing else
    link.send(make(device, kind, 1))


def refuse_gpu(link):
    """Receive in a forked process, and tell what came of it."""
    try:
        link.send(repr(link.recv()))
    except weir.Error as error:
        link.send((error.condition == weir.Errc.unsupported, str(error)))
