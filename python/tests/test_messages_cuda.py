# SPDX-License-Identifier: Apache-2.0
"""Messages of multiprocessing whose memory CUDA still works on: they say when that is complete."""

import pickle

import pytest
from messages_child import SIZE, answer_all, value_of
from test_cuda_gates import Gate
from test_messages import Peer, sent

import weir
from conftest import Memory


@pytest.fixture
def vmm(cuda):
    return Memory(cuda.device, cuda.device.find(weir.MemoryKind.vmm), exportable=True)


def test_cuda_memory_is_received_when_the_senders_work_is_complete(vmm):
    with Peer(answer_all) as peer:
        assert value_of(peer.ask(vmm.filled(SIZE, 1))) == 2  # so that the process is there
        buffer = vmm.filled(SIZE, 3)
        with Gate(vmm.stream):
            buffer.fill(7, stream=vmm.stream)
            peer.link.send(buffer)
            assert not peer.link.poll(0.1)
        assert value_of(peer.answer()) == 8
        peer.link.send(None)
        assert peer.end() == 0


def test_cuda_memory_is_received_at_once_for_a_work_stream(vmm):
    buffer, arrival = vmm.filled(SIZE, 3), weir.Stream(vmm.device)
    out = bytearray(SIZE)
    with Gate(vmm.stream), weir.work_stream(arrival):
        buffer.fill(7, stream=vmm.stream)
        received = pickle.loads(sent(buffer))
        assert not vmm.stream.done
        received.copy_to(out, stream=arrival)
    arrival.synchronize()
    assert out == b"\7" * SIZE


def test_cuda_messages_come_after_the_work_stream(vmm):
    buffer, work = vmm.filled(SIZE, 3), weir.Stream(vmm.device)
    with Peer(answer_all) as peer:
        assert value_of(peer.ask(vmm.filled(SIZE, 1))) == 2
        with Gate(work), weir.work_stream(work):  # work that weir does not see
            peer.link.send(buffer)
            assert not peer.link.poll(0.1)
        assert value_of(peer.answer()) == 4
