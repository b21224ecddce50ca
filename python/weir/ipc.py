# SPDX-License-Identifier: Apache-2.0
"""Buffers between processes.

    weir.ipc.send(socket, buffer.ipc_descriptor(stream=stream))          # one process
    buffer = weir.ipc.open(weir.ipc.receive(socket), stream=stream)      # the other

Many buffers go over a Channel, which takes each segment across once:

    channel.send(buffer, stream=stream, payload=b"frame 7")              # one process
    buffer, payload = channel.receive(stream=stream)                     # the other

Sets of tensors outlive the process that made them, in a holder (`weir hold PATH`):

    weir.ipc.SetWriter(path, "weights").commit(tensors, stream=stream)   # one process, which may end then
    epoch, tensors = weir.ipc.SetReader(path, "weights").open(stream=stream)

Frames for several readers go over a ring, whose slots are filled and read in place:

    producer.publish(slot, stream=stream)                                # one process
    with consumer.next(stream=stream) as frame: ...                      # each of the others
"""

from ._weir import ipc as _ipc

Channel = _ipc.Channel
ChannelStats = _ipc.ChannelStats
Descriptor = _ipc.Descriptor
SetReader = _ipc.SetReader
SetWriter = _ipc.SetWriter
Frame = _ipc.Frame
RingConsumer = _ipc.RingConsumer
RingConsumerStats = _ipc.RingConsumerStats
RingProducer = _ipc.RingProducer
RingStats = _ipc.RingStats
open = _ipc.open
receive = _ipc.receive
send = _ipc.send

__all__ = [
    "Channel", "ChannelStats", "Descriptor", "Frame", "RingConsumer", "RingConsumerStats", "RingProducer", "RingStats",
    "SetReader", "SetWriter", "open", "receive", "send",
]
