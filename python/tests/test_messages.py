# SPDX-License-Identifier: Apache-2.0
"""Buffers, Tensors and Devices in messages of multiprocessing. Processes are spawned, since a GPU driver may be loaded
here; forked ones get memory of the host."""

import concurrent.futures
import gc
import multiprocessing
import os
import pickle
import time
import weakref
from multiprocessing import resource_sharer
from multiprocessing.reduction import ForkingPickler

import messages_child as child
import pytest

import weir
from messages_child import SIZE, value_of

pytestmark = pytest.mark.filterwarnings("ignore:.*fork")  # of a process with threads: on purpose, in a few tests
PATIENCE = 60  # seconds, for what never comes
spawned = multiprocessing.get_context("spawn")


class Peer:
    """A process with a pipe to it."""

    def __init__(self, function, *args, context=spawned):
        self.link, theirs = context.Pipe()
        self.process = context.Process(target=function, args=(theirs, *args))
        self.process.start()
        theirs.close()

    def answer(self):
        assert self.link.poll(PATIENCE)
        return self.link.recv()

    def ask(self, thing):
        self.link.send(thing)
        return self.answer()

    def end(self):
        self.process.join(PATIENCE)
        return self.process.exitcode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.join()


@pytest.fixture(scope="module")
def answering():
    with Peer(child.answer_all) as peer:
        yield peer
        peer.link.send(None)
        assert peer.end() == 0


@pytest.fixture
def shared(pageable):
    """Memory of the host that can be shared, which forked processes may use, too."""
    pageable.info = pageable.device.find(weir.MemoryKind.shared)
    pageable.resource = weir.make_resource(pageable.device, weir.MemoryKind.shared, exportable=True)
    return pageable


def sent(thing):
    return bytes(ForkingPickler.dumps(thing))


def settled(what, wanted):
    """What other threads and processes give back comes by itself."""
    deadline = time.monotonic() + PATIENCE
    while what() != wanted and time.monotonic() < deadline:
        time.sleep(0.001)
    return what()


def test_a_second_process_changes_the_memory(shared_memory, answering):
    buffer = shared_memory.filled(SIZE, 7)
    back = answering.ask(buffer)
    assert back.size == SIZE and back.device == buffer.device
    assert value_of(buffer) == value_of(back) == 8


def test_memory_of_the_host_goes_there_and_back(shared, answering):
    buffer = shared.filled(SIZE, 7)
    answering.ask(buffer).fill(3, stream=shared.stream)
    assert shared.bytes_of(buffer) == b"\3" * SIZE


def test_part_of_a_buffer_is_only_that_part(shared_memory, answering):
    buffer = shared_memory.filled(SIZE, 7)
    answering.ask(buffer.slice(1000, 500))
    assert shared_memory.bytes_of(buffer) == b"\7" * 1000 + b"\10" * 500 + b"\7" * (SIZE - 1500)


def test_pools(shared_memory, answering):
    pool = weir.make_pool(shared_memory.device, exportable=True)
    for value in range(3):
        buffer = pool.allocate(SIZE, stream=shared_memory.stream)
        buffer.fill(value, stream=shared_memory.stream)
        assert value_of(answering.ask(buffer)) == value + 1


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_arguments_of_processes(shared_memory, method):
    buffer = shared_memory.filled(SIZE, 7)
    process = multiprocessing.get_context(method).Process(target=child.add_to_argument, args=(buffer, 2))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == 0
    assert shared_memory.bytes_of(buffer) == b"\11" * SIZE


def test_arguments_of_forked_processes_are_inherited(shared):
    buffer = shared.filled(SIZE, 7)
    process = multiprocessing.get_context("fork").Process(target=child.add_to_argument, args=(buffer, 2))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == 0
    assert shared.bytes_of(buffer) == b"\11" * SIZE


def test_messages_to_forked_processes(shared):
    with Peer(child.answer_all, context=multiprocessing.get_context("fork")) as peer:
        assert value_of(peer.ask(shared.filled(SIZE, 7))) == 8
        peer.link.send(None)
        assert peer.end() == 0


def test_memory_of_a_gpu_says_why_a_forked_process_cannot_have_it(shared_memory):
    if shared_memory.device.backend == "host":
        pytest.skip("memory of the host goes to forked processes")
    with Peer(child.refuse_gpu, context=multiprocessing.get_context("fork")) as peer:
        is_unsupported, text = peer.ask(shared_memory.filled(SIZE, 7))
        assert is_unsupported and "fork" in text
        assert peer.end() == 0


@pytest.mark.parametrize("of", [lambda t: t, lambda t: t.T, lambda t: t[1:3, ::2], lambda t: t[::-1], lambda t: t[3, 4],
                                lambda t: t[:, 2:2]], ids=["all", "T", "steps", "backwards", "scalar", "none"])
def test_tensors_keep_their_layout(shared_memory, answering, of):
    buffer = shared_memory.allocate(512)
    buffer.copy_from(bytes(range(256)) * 2, stream=shared_memory.stream)
    tensor = of(buffer.view("int16", (4, 6), byte_offset=32))
    assert answering.ask(tensor) == child.describe(tensor)
    tensor = of(buffer.view("bfloat16", (4, 5), padded_shape=(4, 8)))
    assert answering.ask(tensor) == child.describe(tensor)


def test_a_layout_that_leaves_the_memory_is_refused(shared):
    with pytest.raises(weir.Error) as raised:
        weir._messages._open_tensor(shared.allocate(64), "int8", (65,), (1,), 0)
    assert raised.value.condition == weir.Errc.invalid_argument


def test_zero_bytes(memory, answering):
    assert answering.ask(memory.allocate(0)).startswith("<weir.Buffer 0 bytes")
    assert answering.ask(memory.allocate(0).view("float32", (0, 3)))[:2] == ("float32", (0, 3))


def test_devices(answering):
    for device in weir.devices():
        assert answering.ask(device) == repr(device)
        assert pickle.loads(sent(device)) == device


def test_a_device_that_is_not_here(pageable):
    uuid = "ffffffff-0000-0000-0000-000000000000"
    with pytest.raises(weir.Error, match=f"cuda:7 .* {uuid} is not here; there are") as raised:
        weir._messages._find_device("cuda", uuid, "cuda:7 (a GPU)")
    assert raised.value.condition == weir.Errc.incompatible
    for device in weir.devices():
        assert f"{device.id} {device.uuid}" in str(raised.value)
    with pytest.raises(weir.Error):  # another backend's device with the same UUID is another device
        weir._messages._find_device("cuda", pageable.device.uuid, "cuda:0")


def test_process_pools(shared_memory):
    buffers = [shared_memory.filled(SIZE, value) for value in range(6)]
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=spawned) as executor:
        results = list(executor.map(child.add_one, buffers, timeout=PATIENCE))
    assert [value_of(b) for b in buffers] == [value_of(b) for b in results] == [1, 2, 3, 4, 5, 6]
    with spawned.Pool(2) as pool:
        results = pool.map_async(child.add_one, buffers).get(PATIENCE)
    assert [value_of(b) for b in buffers] == [value_of(b) for b in results] == [2, 3, 4, 5, 6, 7]


def test_workers_that_end_after_a_task(shared):
    with spawned.Pool(1, maxtasksperchild=1) as pool:
        for value in range(3):
            assert value_of(pool.apply_async(child.add_one, (shared.filled(SIZE, value),)).get(PATIENCE)) == value + 1


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_a_producer_that_ends_is_received(shared, method):
    queue = multiprocessing.get_context(method).Queue()
    what = queue, shared.device, shared.info.kind, range(5)
    process = multiprocessing.get_context(method).Process(target=child.produce, args=what)
    process.start()
    assert [value_of(queue.get(timeout=PATIENCE)) for _ in range(5)] == list(range(5))
    process.join(PATIENCE)
    assert process.exitcode == 0


def test_a_sender_that_was_killed(shared):
    with Peer(child.die_after_sending, shared.device, shared.info.kind) as peer:
        peer.process.join(PATIENCE)
        with pytest.raises(weir.Error, match="message is gone: the process that sent it has ended") as raised:
            peer.answer()
        assert raised.value.condition == weir.Errc.peer_gone


def test_a_sender_that_nobody_hears_ends(shared, capfd):
    with Peer(child.end_unheard, shared.device, shared.info.kind) as peer:
        assert peer.end() == 0
    assert "1 messages of this process were not received within 0.01 s" in capfd.readouterr().err


def test_a_message_is_received_once(shared, capfd):
    buffer = shared.filled(SIZE, 7)
    message = sent(buffer)
    mine = pickle.loads(message)
    with pytest.raises(weir.Error, match="another receiver has had the message") as raised:
        pickle.loads(message)
    assert raised.value.condition == weir.Errc.peer_gone
    assert value_of(mine) == 7
    settled(lambda: "KeyError" in capfd.readouterr().err, True)  # multiprocessing reports it in the sender


@pytest.mark.parametrize("dropped", [False, True])
def test_the_memory_stays_until_the_message_is_received_or_dropped(shared, dropped):
    pool = weir.make_pool(weir.make_limiting(shared.resource, 1 << 21), exportable=True, segment_bytes=1 << 21)
    buffer = pool.allocate(1 << 20, stream=shared.stream)
    buffer.fill(5, stream=shared.stream)
    address = buffer.host_data
    message = sent(buffer)
    buffer.close()
    others = [pool.allocate(1 << 19, stream=shared.stream) for _ in range(2)]
    assert address not in [b.host_data for b in others]
    with pytest.raises(weir.OutOfMemory):
        pool.allocate(1 << 20, stream=shared.stream)
    if dropped:
        resource_sharer.stop()
    else:
        mine = pickle.loads(message)
        assert value_of(mine) == 5
        with pytest.raises(weir.OutOfMemory):
            pool.allocate(1 << 20, stream=shared.stream)
        mine.close()
    assert pool.allocate(1 << 20, stream=shared.stream).host_data == address


def test_memory_of_a_process_that_was_never_started_comes_back(shared):
    pool = weir.make_pool(weir.make_limiting(shared.resource, 1 << 20), exportable=True, segment_bytes=1 << 20)
    buffer = pool.allocate(1 << 20, stream=shared.stream)
    process = spawned.Process(target=child.add_to_argument, args=(buffer, lambda: "cannot be pickled"))
    with pytest.raises((AttributeError, pickle.PicklingError)):
        process.start()
    buffer.close()
    del buffer, process
    gc.collect()
    assert pool.allocate(1 << 20, stream=shared.stream).size == 1 << 20


def test_a_message_that_fails_leaves_nothing_behind(shared, monkeypatch):
    def fails(*_):
        raise OSError("no more files")

    buffer = shared.filled(SIZE, 7)
    sharer, count = resource_sharer._resource_sharer, weir._messages._sent.count
    offered, on_their_way = len(sharer._cache), count()
    for where, what in [(weir._messages._sent, "add"), (multiprocessing.reduction, "DupFd")]:
        with monkeypatch.context() as changed, pytest.raises(OSError, match="no more files"):
            changed.setattr(where, what, fails)
            sent(buffer)
        assert len(sharer._cache) == offered
        assert settled(lambda: count() <= on_their_way, True)
        assert settled(lambda: shared.resource.stats()["leased_buffers"], 0) == 0
    assert value_of(pickle.loads(sent(buffer))) == 7


def test_memory_that_is_not_exportable(pageable):
    with pytest.raises(weir.Error, match="make the resource with exportable = true") as raised:
        sent(pageable.allocate(64))
    assert raised.value.condition == weir.Errc.unsupported
    closed = pageable.allocate(64)
    closed.close()
    with pytest.raises(weir.Error) as raised:
        sent(closed)
    assert raised.value.condition == weir.Errc.closed


def test_other_picklers_refuse_it(shared):
    for thing in (shared.allocate(64), shared.allocate(64).view(), shared.device):
        with pytest.raises(TypeError, match="messages of multiprocessing carry it"):
            pickle.dumps(thing)


def test_a_forked_process_that_knows_of_a_message_hides_nothing(shared):
    """It has a copy of the message's file, so that the file stays open when the receiver closes it."""
    message = sent(shared.filled(SIZE, 7))
    ours, theirs = os.pipe()
    forked = os.fork()
    if forked == 0:
        os.close(theirs)
        os.read(ours, 1)
        os._exit(0)
    mine = pickle.loads(message)
    assert settled(weir._messages._sent.count, 0) == 0
    os.close(ours)
    os.close(theirs)
    assert os.waitpid(forked, 0) == (forked, 0)
    assert value_of(mine) == 7


def open_files():
    return len(os.listdir("/proc/self/fd"))


def test_no_files_are_left(shared_memory):
    buffer = shared_memory.filled(64, 5)
    pickle.loads(sent(buffer)).close()
    before = open_files()
    closed = shared_memory.allocate(64)
    closed.close()
    for _ in range(20):
        pickle.loads(sent(buffer)).close()
        with pytest.raises(weir.Error):
            sent(closed)
    assert settled(lambda: open_files() <= before, True)


def test_a_process_that_has_the_memory_does_not_keep_the_senders_object(shared, answering):
    buffer = shared.filled(SIZE, 7)
    gone = weakref.ref(buffer)
    back = answering.ask(buffer)
    del buffer
    assert gone() is None
    assert value_of(back) == 8
