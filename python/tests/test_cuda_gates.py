# SPDX-License-Identifier: Apache-2.0
"""What happens while a stream stands still: on CUDA, whose streams wait for functions of the host."""

import _thread
import ctypes
import gc
import signal
import sys
import threading
import time
import tracemalloc

import numpy as np
import pytest
from gates import Gate

import weir

LIMIT = 30  # seconds, for what never comes


def test_the_target_of_a_copy_is_locked_until_the_copy_is_over(cuda):
    buffer, out = cuda.filled(100, 3), bytearray(100)
    with Gate(cuda.stream):
        buffer.copy_to(out, stream=cuda.stream)
        with pytest.raises(BufferError):
            out.append(0)
    out.append(0)
    assert out == b"\3" * 100 + b"\0"


def test_the_array_that_a_tensor_is_copied_to_is_locked_until_the_copy_is_over(cuda):
    tensor, out = cuda.resource.allocate_tensor(100, "uint8", stream=cuda.stream, padded_shape=128), bytearray(100)
    tensor.fill(3, stream=cuda.stream)
    with Gate(cuda.stream):
        tensor.copy_to(out, stream=cuda.stream)
        with pytest.raises(BufferError):
            out.append(0)
    out.append(0)
    assert out == b"\3" * 100 + b"\0"


@pytest.mark.parametrize("part", [slice(None), slice(None, None, 2)], ids=["compact", "steps"])
def test_the_array_that_a_tensor_is_copied_from_has_been_read(cuda, part):
    tensor = cuda.resource.allocate_tensor(64, "uint8", stream=cuda.stream)[part]
    source = bytearray(b"\5" * tensor.size)
    with Gate(cuda.stream):
        tensor.copy_from(source, stream=cuda.stream)
        source[:] = bytes(len(source))
        source.append(0)  # it is not locked
    assert bytes(tensor.buffer)[part] == b"\5" * tensor.size


def test_what_a_mirrored_buffer_is_read_into_is_locked_until_the_read_is_over(cuda):
    other = weir.Stream(cuda.device)
    mirrored, out = weir.MirroredBuffer(8, [cuda.stream, other]), bytearray(16)
    mirrored.write(b"abcdefgh")
    mirrored.synchronize()
    with Gate(cuda.stream):
        assert {mirrored.any() for _ in range(4)} == {1}
        assert mirrored.synchronize(timeout=0.05) is False
        mirrored.read_into(out)
        with pytest.raises(BufferError):
            out.append(0)
        mirrored.broadcast(0)
    assert mirrored.synchronize()
    out.append(0)
    assert out == b"abcdefgh" * 2 + b"\0"


def test_ctrl_c_ends_a_read_of_a_mirrored_buffer(cuda):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # programs in the background ignore it
    mirrored = weir.MirroredBuffer(8, [cuda.stream])
    mirrored.write(b"abcdefgh")
    try:
        with Gate(cuda.stream):
            with pytest.raises(KeyboardInterrupt):  # it may come before the read
                threading.Timer(0.05, _thread.interrupt_main).start()
                mirrored.read()
            assert not cuda.stream.done
    finally:
        signal.signal(signal.SIGINT, before)
    assert mirrored.read(0) == b"abcdefgh"


def test_an_array_of_a_host_mirror_waits_for_the_sync(cuda):
    mirror = weir.HostMirror(cuda.filled(8, 3), stream=cuda.stream)
    gate = Gate(cuda.stream)
    mirror.sync_to_host(stream=cuda.stream)
    threading.Timer(0.05, gate.__exit__).start()
    assert mirror.array().tobytes() == b"\3" * 8 and not mirror.is_one_memory


def test_ctrl_c_ends_a_wait(cuda):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # programs in the background ignore it
    try:
        with Gate(cuda.stream):
            begin = time.monotonic()
            with pytest.raises(KeyboardInterrupt):  # it may come before the wait
                threading.Timer(0.05, _thread.interrupt_main).start()
                cuda.stream.synchronize(timeout=LIMIT)
            assert time.monotonic() - begin < LIMIT
            assert not cuda.stream.done
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_wait_lets_another_thread_end_it(cuda):
    waits = threading.Event()

    def open_gate():
        waits.wait()
        assert gate.c.sem_post(gate.semaphore) == 0

    interval = sys.getswitchinterval()
    with Gate(cuda.stream) as gate:
        event = cuda.stream.record()
        thread = threading.Thread(target=open_gate)
        thread.start()
        sys.setswitchinterval(1000)  # the other thread goes on only while this one lets it
        try:
            waits.set()
            assert event.wait(timeout=LIMIT)
        finally:
            sys.setswitchinterval(interval)
            thread.join()


class Opener:
    """A thread that opens a gate. It runs only when the thread that uses it lets it: as soon as that one waits."""

    def __init__(self, gate):
        self.gate, self.entered = gate, threading.Event()
        self.thread = threading.Thread(target=self.open)
        self.interval = sys.getswitchinterval()

    def open(self):
        self.entered.wait()
        assert self.gate.c.sem_post(self.gate.semaphore) == 0

    def __enter__(self):
        self.thread.start()
        sys.setswitchinterval(1000)
        self.entered.set()

    def __exit__(self, *_):
        sys.setswitchinterval(self.interval)
        self.thread.join()


@pytest.mark.parametrize("ask", ["handle", "export"])
def test_who_waits_for_what_a_stream_holds_back_lets_another_thread_end_that(cuda, ask):
    held, host = weir.Stream(cuda.device), weir.Stream(weir.host_device())
    buffer = cuda.resource.allocate(64, stream=held)
    _, handle = cuda.stream.__cuda_stream__()
    with Gate(cuda.stream) as gate:
        host.wait(cuda.stream.record())
        held.wait(host.record())
        with Opener(gate):
            assert held.__cuda_stream__()[0] == 0 if ask == "handle" else buffer.__dlpack__(stream=handle)


def close_behind(stream, buffer, held):
    """Close `buffer` while `held` has work with it, which waits for `stream`."""
    held.wait(stream.record())
    buffer.fill(1, stream=held)
    buffer.close()


def test_an_allocation_that_waits_lets_another_thread_end_that(cuda):
    host = weir.host_device()
    pool = weir.make_pool(weir.make_resource(host), limit=1 << 20, segment_bytes=1 << 20, patience=LIMIT)
    pool.set_reuse_policy("passed_only")
    held, other = weir.Stream(host), weir.Stream(host)
    buffer = pool.allocate(1 << 20, stream=held)
    with Gate(cuda.stream) as gate:
        close_behind(cuda.stream, buffer, held)
        with Opener(gate):
            assert pool.allocate(1 << 20, stream=other).size == 1 << 20


def test_without_patience_an_allocation_does_not_wait(cuda):
    host = weir.host_device()
    pool = weir.make_pool(
        weir.make_resource(host), limit=1 << 20, segment_bytes=1 << 20, patience=0, reuse=weir.ReusePolicy.passed_only
    )
    held, other = weir.Stream(host), weir.Stream(host)
    buffer = pool.allocate(1 << 20, stream=held)
    with Gate(cuda.stream):
        close_behind(cuda.stream, buffer, held)
        assert pool.try_allocate(1 << 20, stream=other) is None
        pool.set_reuse_policy("wait_rather_than_fail")
        assert pool.try_allocate(1 << 20, stream=other).size == 1 << 20, "the stream waits instead"
        assert not held.done
        assert pool.pool_stats()["waits"] == 1


def test_a_stream_may_wait_before_its_pool_grows(cuda):
    host = weir.host_device()
    pool = weir.make_pool(weir.make_resource(host), segment_bytes=1 << 20, reuse="wait_rather_than_grow")
    held, other = weir.Stream(host), weir.Stream(host)
    buffer = pool.allocate(1 << 20, stream=held)
    with Gate(cuda.stream):
        close_behind(cuda.stream, buffer, held)
        assert pool.allocate(1 << 20, stream=other).size == 1 << 20
        assert not held.done
        stats = pool.pool_stats()
        assert (stats["grown"], stats["waits"]) == (1, 1)


def test_bytes_are_those_after_all_uses(cuda):
    buffer, host = cuda.filled(100, 3), weir.make_resource(weir.host_device(), "pageable")
    there = host.allocate(100, stream=cuda.stream)
    with Gate(cuda.stream) as gate:
        buffer.fill(4, stream=cuda.stream)
        there.copy_from(buffer, stream=cuda.stream)
        with Opener(gate):
            assert bytes(buffer) == b"\4" * 100
        assert bytes(there) == b"\4" * 100


@pytest.mark.parametrize("ask", ["stream", "event", "channel"])
def test_a_target_is_unlocked_while_the_main_thread_waits_for_another_one(cuda, ask):
    """Python makes the calls that weir asks it for on the main thread, which runs nothing meanwhile."""
    buffer, out, seen = cuda.filled(100, 3), bytearray(100), []
    here, there = weir.ipc.Channel.pair()
    lent = weir.make_shared_resource().allocate(64, stream=weir.Stream(weir.host_device()))

    def asked():
        if ask == "stream":
            return cuda.stream.done
        if ask == "event":
            return weir.Event().done
        here.send(lent, stream=cuda.stream)
        there.receive(stream=cuda.stream)
        return True

    def work():
        with Gate(cuda.stream) as gate:
            buffer.copy_to(out, stream=cuda.stream)
            assert gate.c.sem_post(gate.semaphore) == 0
            end = time.monotonic() + LIMIT
            while not seen and time.monotonic() < end:
                if asked():
                    try:
                        out.append(0)
                        seen.append(True)
                    except BufferError:
                        pass

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen


def test_ctrl_c_ends_a_copy_to_bytes(cuda):
    """The device writes the bytes all the same, so they stay until it has."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # programs in the background ignore it
    size = 1 << 22
    buffer = cuda.filled(size, 3)
    cuda.stream.synchronize()

    def are_there():
        return tracemalloc.get_traced_memory()[0] >= size

    def interrupt():
        while not are_there():
            time.sleep(0.001)
        time.sleep(0.05)
        _thread.interrupt_main()

    tracemalloc.start()
    try:
        with Gate(cuda.stream):
            buffer.fill(4, stream=cuda.stream)
            with pytest.raises(KeyboardInterrupt):
                threading.Thread(target=interrupt, daemon=True).start()
                bytes(buffer)
            assert not cuda.stream.done and are_there()
        end = time.monotonic() + LIMIT
        while are_there() and time.monotonic() < end:
            time.sleep(0.001)
        assert not are_there()
    finally:
        tracemalloc.stop()
        signal.signal(signal.SIGINT, before)
    assert bytes(buffer) == b"\4" * size


ARRAYS = {
    "asarray": lambda buffer, mirror: np.asarray(buffer),
    "array": lambda buffer, mirror: np.array(buffer),
    "asarray of a tensor": lambda buffer, mirror: np.asarray(buffer.view()),
    "of a mirror": lambda buffer, mirror: mirror.array(),
}


@pytest.mark.parametrize("make", ARRAYS)
def test_ctrl_c_ends_the_making_of_an_array(cuda, make):
    """NumPy takes it for a refusal of the buffer protocol, and asks in another way."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # programs in the background ignore it
    managed = weir.make_resource(cuda.device, "managed")
    buffer = managed.allocate(4096, stream=cuda.stream)
    mirror = weir.HostMirror(buffer, managed.allocate(4096, stream=cuda.stream))
    gate = Gate(cuda.stream)
    opens = threading.Timer(LIMIT, lambda: gate.c.sem_post(gate.semaphore))  # else what is lost would last
    opens.start()
    try:
        with gate:
            buffer.fill(1, stream=cuda.stream)
            mirror.sync_to_host(stream=cuda.stream)
            with pytest.raises(KeyboardInterrupt):  # it may come before the wait
                threading.Timer(0.05, _thread.interrupt_main).start()
                ARRAYS[make](buffer, mirror)
            assert not cuda.stream.done
    finally:
        opens.cancel()
        signal.signal(signal.SIGINT, before)
    assert ARRAYS[make](buffer, mirror).tobytes() == b"\1" * 4096
    assert buffer.__array__().size == 4096


def test_ctrl_c_that_was_caught_is_not_raised_again(cuda):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    buffer = weir.make_resource(cuda.device, "managed").allocate(4096, stream=cuda.stream)
    try:
        with Gate(cuda.stream):
            buffer.fill(1, stream=cuda.stream)
            with pytest.raises(KeyboardInterrupt):
                threading.Timer(0.05, _thread.interrupt_main).start()
                memoryview(buffer)
    finally:
        signal.signal(signal.SIGINT, before)
    assert buffer.__array__().tobytes() == b"\1" * 4096


class Owner:
    """Of memory of the host."""

    def __init__(self, gone):
        self.memory, self.gone = ctypes.create_string_buffer(64), gone

    def __del__(self):
        self.gone.append(True)


def owned_buffer(gone, stream):
    owner = Owner(gone)
    return weir.Buffer.from_handle(weir.host_device(), ctypes.addressof(owner.memory), 64, owner, stream=stream)


def goes_in_time(gone):
    end = time.monotonic() + LIMIT
    while not gone and time.monotonic() < end:  # calls nothing of weir
        time.sleep(0.001)
    return bool(gone)


def test_closing_in_order_of_a_stream_waits_for_its_work(cuda):
    gone = []
    home, busy = weir.Stream(weir.host_device()), weir.Stream(weir.host_device())
    with Gate(cuda.stream):
        busy.wait(cuda.stream.record())
        buffer = owned_buffer(gone, home)
        buffer.close(busy)
        gc.collect()
        time.sleep(0.05)  # long enough for an owner that goes too early
        assert not gone
    assert goes_in_time(gone)


def test_an_owner_goes_when_its_memory_is_free_whatever_python_does(cuda):
    gone = []
    stream = weir.Stream(weir.host_device())
    with Gate(cuda.stream) as gate:
        stream.wait(cuda.stream.record())
        buffer = owned_buffer(gone, stream)
        buffer.fill(1, stream=stream)
        buffer.close()
        gc.collect()
        assert not gone
        assert gate.c.sem_post(gate.semaphore) == 0
        assert goes_in_time(gone)
