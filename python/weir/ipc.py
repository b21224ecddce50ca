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

Whoever lends from a pool can ask who has its memory, and wait for it:

    weir.ipc.leased_to(pool)                                             # process ids, buffers, bytes
    weir.ipc.wait_for_returns(pool, timeout=5)

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
LeasedTo = _ipc.LeasedTo
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
leased_to = _ipc.leased_to
open = _ipc.open
receive = _ipc.receive
send = _ipc.send
wait_for_returns = _ipc.wait_for_returns

__all__ = [
    "Change",
    "Channel",
    "ChannelStats",
    "Client",
    "Descriptor",
    "Frame",
    "Guest",
    "LeasedTo",
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
    "leased_to",
    "open",
    "receive",
    "send",
    "wait_for_returns",
]
