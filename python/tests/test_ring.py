# SPDX-License-Identifier: Apache-2.0
"""weir.ipc.RingProducer and RingConsumer: both ends here, and readers in other processes."""

import _thread
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import weir

SHAPE = (10, 50)


def sockets():
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def join(producer, **options):
    mine, theirs = sockets()
    with mine, theirs:
        producer.add_consumer(mine)
        return weir.ipc.RingConsumer(theirs, **options)


def ring(memory, **options):
    return weir.ipc.RingProducer(memory.resource, **{"slots": 3, "shape": SHAPE, "dtype": "uint8"} | options)


def publish(producer, memory, value, payload=b""):
    slot = producer.acquire(stream=memory.stream, timeout=30)
    slot.fill(value, stream=memory.stream)
    return producer.publish(slot, stream=memory.stream, payload=payload)


def test_frames_are_tensors_in_the_same_memory(shared_memory):
    producer = ring(shared_memory)
    consumer = join(producer)
    for i in range(10):
        assert publish(producer, shared_memory, i, b"frame %d" % i) == i
        with consumer.next(stream=shared_memory.stream, timeout=30) as frame:
            assert (frame.sequence, frame.missed, frame.payload) == (i, 0, b"frame %d" % i)
            assert frame.tensor.shape == SHAPE
            assert shared_memory.bytes_of(frame.tensor.buffer) == bytes([i]) * 500
    stats = producer.stats
    assert (stats.published, stats.dropped, stats.waiting) == (10, 0, 0)


def test_numpy_sees_a_frame_in_place():
    np = pytest.importorskip("numpy")
    memory = weir.make_resource(weir.host_device(), weir.MemoryKind.shared, exportable=True)
    stream = weir.Stream(weir.host_device())
    producer = weir.ipc.RingProducer(memory, slots=2, shape=SHAPE, dtype="float32")
    consumer = join(producer)
    slot = producer.acquire(stream=stream)
    mine = np.from_dlpack(slot)
    mine[:] = 1.5
    producer.publish(slot, stream=stream)
    frame = consumer.next(stream=stream, timeout=30)
    theirs = np.from_dlpack(frame.tensor)
    assert theirs.shape == SHAPE and (theirs == 1.5).all()
    mine[0, 0] = 7
    assert theirs[0, 0] == 7, "it is the same memory"
    frame.close()
    other = producer.acquire(stream=stream, timeout=30)
    with pytest.raises(weir.Error, match="in use here") as raised:  # by the two arrays
        producer.acquire(stream=stream, timeout=0.01)
    assert raised.value.condition == weir.Errc.timed_out
    del theirs, mine
    producer.acquire(stream=stream, timeout=30).buffer.close()
    del other


def test_a_slow_consumer_is_told_what_it_missed(shared_memory):
    producer = ring(shared_memory, slots=4, drop_oldest=True, per_consumer=1)
    consumer = join(producer)
    publish(producer, shared_memory, 0)
    consumer.next(stream=shared_memory.stream, timeout=30).close()
    for i in range(1, 20):
        publish(producer, shared_memory, i)
    frames = []
    while not frames or frames[-1].sequence != 19:
        frames.append(consumer.next(stream=shared_memory.stream, timeout=30))
        frames[-1].close()
    assert sum(frame.missed for frame in frames) + len(frames) == 19
    assert producer.stats.dropped == sum(frame.missed for frame in frames) > 0
    assert producer.stats.consumers[0].missed == producer.stats.dropped


def consumers_come_to(producer, wanted):
    """What each consumer has, once that is `wanted`: consumers tell the producer when they like."""

    def now():
        return {one.id: (one.held, one.waiting, one.missed) for one in producer.stats.consumers}

    deadline = time.monotonic() + 30
    while now() != wanted and time.monotonic() < deadline:
        time.sleep(0.001)
    return now()


def test_what_each_consumer_has(shared_memory):
    producer, stream = ring(shared_memory, slots=8, per_consumer=2), shared_memory.stream
    numbers, consumers = [], []
    for _ in range(2):
        mine, theirs = sockets()
        with mine, theirs:
            numbers.append(producer.add_consumer(mine))
            consumers.append(weir.ipc.RingConsumer(theirs))
    quick, slow = consumers
    for i in range(5):
        publish(producer, shared_memory, i)
    for _ in range(5):
        quick.next(stream=stream, timeout=30).close()
    frame = slow.next(stream=stream, timeout=30)
    wanted = {numbers[0]: (0, 0, 0), numbers[1]: (2, 3, 0)}
    assert consumers_come_to(producer, wanted) == wanted
    producer.remove_consumer(numbers[1])
    frame.close()
    with slow.next(stream=stream, timeout=30) as sent:
        assert sent.sequence == 1
    with pytest.raises(weir.Error) as raised:
        slow.next(stream=stream, timeout=30)
    assert raised.value.condition == weir.Errc.peer_gone
    wanted = {numbers[0]: (0, 0, 0)}
    assert consumers_come_to(producer, wanted) == wanted


def test_buffers_and_many_at_once(shared_memory):
    producer = weir.ipc.RingProducer(shared_memory.resource, slots=5, slot_bytes=100, per_consumer=5)
    consumer = join(producer, ahead=8)
    slots = [producer.acquire(stream=shared_memory.stream) for _ in range(5)]
    for i, slot in enumerate(slots):
        assert slot.size == producer.slot_bytes == 100
        slot.fill(i, stream=shared_memory.stream)
    assert producer.publish_all([(slot, b"%d" % i) for i, slot in enumerate(slots)], stream=shared_memory.stream) == 0
    for i in range(5):
        frame = consumer.next(stream=shared_memory.stream, timeout=30)
        assert frame.payload == b"%d" % i
        assert shared_memory.bytes_of(frame.buffer) == bytes([i]) * 100
    with pytest.raises(weir.Error, match="no layout"):
        frame.tensor  # noqa: B018
    assert producer.drain(timeout=30)


def test_refusals(shared_memory):
    stream = shared_memory.stream
    with pytest.raises(weir.Error, match="exportable"):
        weir.ipc.RingProducer(weir.make_resource(weir.host_device()), slot_bytes=1)
    with pytest.raises(TypeError, match="together"):
        weir.ipc.RingProducer(shared_memory.resource, shape=(1,))
    producer = ring(shared_memory)
    with pytest.raises(weir.Error, match="SOCK_SEQPACKET"):
        producer.add_consumer(socket.socketpair()[0])
    with pytest.raises(TypeError, match="slot"):
        producer.publish(b"frame", stream=stream)
    with pytest.raises(weir.Error, match="no slot of this ring"):
        producer.publish(shared_memory.allocate(500), stream=stream)
    consumer = join(producer)
    with pytest.raises(weir.Error) as raised:
        consumer.next(stream=stream, timeout=0.01)
    assert raised.value.condition == weir.Errc.timed_out
    with producer:
        pass
    with pytest.raises(weir.Error) as raised:
        consumer.next(stream=stream, timeout=30)
    assert raised.value.condition == weir.Errc.peer_gone
    with pytest.raises(weir.Error) as raised:
        producer.acquire(stream=stream)
    assert raised.value.condition == weir.Errc.closed


def test_ctrl_c_ends_a_wait(shared_memory):
    producer = ring(shared_memory)
    consumer = join(producer)
    slots = [producer.acquire(stream=shared_memory.stream) for _ in range(3)]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for wait in (consumer.next, producer.acquire):
            with pytest.raises(KeyboardInterrupt):
                threading.Timer(0.05, _thread.interrupt_main).start()
                wait(stream=shared_memory.stream)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(slots) == 3


def test_two_other_processes(shared_memory):
    child = Path(__file__).with_name("ring_child.py")
    producer = ring(shared_memory)
    processes = []
    try:
        for count in (1, 2):
            mine, theirs = sockets()
            with mine, theirs:
                producer.add_consumer(mine)
                command = [sys.executable, str(child), str(theirs.fileno()), shared_memory.device.id]
                processes.append(subprocess.Popen(command, pass_fds=[theirs.fileno()], stdout=subprocess.PIPE))
            publish(producer, shared_memory, 0)
            deadline = time.monotonic() + 60  # one after the other: Mesa's CPU driver moves the position of their file
            while producer.stats.free != 3 and time.monotonic() < deadline:
                time.sleep(0.001)
            assert len(producer.stats.consumers) == count
        for i in range(1, 21):
            publish(producer, shared_memory, i)
        assert producer.drain(timeout=60)
        producer.close()
        for process in processes:
            output, _ = process.communicate(timeout=60)
            assert int(output) == 500 * sum(range(1, 21))
            assert process.returncode == 0
    finally:
        for process in processes:
            process.kill()
