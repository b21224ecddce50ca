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

Processes that do not know each other meet at a path:

    server = weir.ipc.Server("/run/models.sock")                         # one process
    server.publish("weights", tensor, stream=stream)
    tensor = weir.ipc.Client("/run/models.sock").get("weights", stream=stream)  # any other
"""

from ._weir import ipc as _ipc

Change = _ipc.Change
Channel = _ipc.Channel
ChannelStats = _ipc.ChannelStats
Client = _ipc.Client
Descriptor = _ipc.Descriptor
Frame = _ipc.Frame
Guest = _ipc.Guest
Listing = _ipc.Listing
Loan = _ipc.Loan
News = _ipc.News
RingConsumer = _ipc.RingConsumer
RingConsumerStats = _ipc.RingConsumerStats
RingProducer = _ipc.RingProducer
RingStats = _ipc.RingStats
Server = _ipc.Server
SetReader = _ipc.SetReader
SetWriter = _ipc.SetWriter
Subscription = _ipc.Subscription
open = _ipc.open
receive = _ipc.receive
send = _ipc.send

__all__ = [
    "Change",
    "Channel",
    "ChannelStats",
    "Client",
    "Descriptor",
    "Frame",
    "Guest",
    "Listing",
    "Loan",
    "News",
    "RingConsumer",
    "RingConsumerStats",
    "RingProducer",
    "RingStats",
    "Server",
    "SetReader",
    "SetWriter",
    "Subscription",
    "open",
    "receive",
    "send",
]
