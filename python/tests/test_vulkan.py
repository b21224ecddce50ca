# SPDX-License-Identifier: Apache-2.0
"""A Vulkan device of an application, adopted."""

import contextlib
import ctypes
import faulthandler
import gc
import os
import signal
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
from vulkan_application import Application, Unavailable

import weir


@pytest.fixture
def application():
    try:
        made = Application()
    except Unavailable as why:
        if "vulkan" in os.environ.get("WEIR_REQUIRE", ""):
            pytest.fail(f"WEIR_REQUIRE asks for Vulkan: {why}")
        pytest.skip(f"no Vulkan device: {why}")
    yield made
    made.close()


def handles(application, **others):
    return {
        "instance": application.instance, "physical_device": application.physical, "device": application.device,
        "queues": [application.queue], "queue_family": application.family, "timeline_semaphore": True, **others,
    }


@pytest.fixture
def adopted(application):
    device = weir.vulkan.adopt(**handles(application))
    yield device
    gc.collect()
    try:
        weir.vulkan.release(device)
    except weir.Error:
        application.closing.clear()  # what failed still uses the device
        raise


class Lock:
    """A lock that counts, and knows which threads had it."""

    def __init__(self):
        self.lock, self.taken, self.threads = threading.Lock(), 0, set()

    def acquire(self):
        self.lock.acquire()
        self.taken += 1
        self.threads.add(threading.get_ident())

    def release(self):
        self.lock.release()


def copies(device):
    stream = weir.Stream(device)
    buffer = weir.make_pool(device).allocate(1 << 16, stream=stream)
    buffer.fill(42, stream=stream)
    out = buffer.copy_to(stream=stream).copy_to(bytearray(1 << 16), stream=stream)
    stream.synchronize()
    return out


def test_adoption(application):
    device = weir.vulkan.adopt(**handles(application))
    assert device.backend == "vulkan" and device not in weir.devices()
    assert copies(device) == b"\x2a" * (1 << 16)
    gc.collect()
    weir.vulkan.release(device)
    with pytest.raises(weir.Error) as caught:
        weir.Stream(device)
    assert caught.value.condition == weir.Errc.closed


def test_handles_are_numbers_or_pointers(application):
    entry = application.library.vkGetInstanceProcAddr
    for get in (entry, ctypes.cast(entry, ctypes.c_void_p), ctypes.cast(entry, ctypes.c_void_p).value):
        device = weir.vulkan.adopt(
            **handles(application, instance=application.instance.value, queues=[application.queue.value],
                      get_instance_proc_addr=get)
        )
        weir.vulkan.release(device)


@pytest.mark.parametrize("make", [Lock, threading.Lock, threading.RLock])
def test_the_lock_of_a_queue(application, make):
    lock = make()
    device = weir.vulkan.adopt(**handles(application, queues=[(application.queue, lock)]))
    assert copies(device) == b"\x2a" * (1 << 16)
    gc.collect()
    weir.vulkan.release(device)
    if make is Lock:
        assert lock.taken > 0 and not lock.lock.locked()


def test_work_waits_for_the_lock(application):
    """A thread that waits for the queue does so without the GIL, and without what others need."""
    lock = threading.Lock()
    device = weir.vulkan.adopt(**handles(application, queues=[(application.queue, lock)]))
    stream, out, begins = weir.Stream(device), bytearray(256), threading.Event()
    buffer = weir.make_resource(device, "readback").allocate(256, stream=stream)
    buffer.fill(3, stream=stream)

    def work():
        begins.set()
        buffer.copy_to(out, stream=stream)
        stream.synchronize()

    with lock:
        thread = threading.Thread(target=work)
        thread.start()
        assert begins.wait(60)
        assert sum(range(100000)) and out == bytes(256)
    thread.join()
    assert out == b"\3" * 256
    del buffer, stream
    gc.collect()
    weir.vulkan.release(device)


def test_many_threads_on_one_queue(application):
    lock = Lock()
    device = weir.vulkan.adopt(**handles(application, queues=[(application.queue, lock)]))
    seen = []

    def work():
        for _ in range(5):
            seen.append(bytes(copies(device)) == b"\x2a" * (1 << 16))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    resource, stream = weir.make_resource(device, "readback"), weir.Stream(device)
    for number in range(50):  # readers that name no stream, and memory that ends, meanwhile
        buffer = resource.allocate(64, stream=stream)
        buffer.fill(number, stream=stream)
        assert np.from_dlpack(buffer).tolist() == [number] * 64
        assert bytes(buffer) == bytes([number]) * 64
    for thread in threads:
        thread.join()
    assert seen == [True] * 20 and len(lock.threads) > 1
    del buffer, resource, stream
    gc.collect()
    weir.vulkan.release(device)


@contextlib.contextmanager
def not_for_ever():
    """A thread that hangs with the GIL ends the process. No other thread could go on."""
    faulthandler.dump_traceback_later(60, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


@contextlib.contextmanager
def flushing(*streams):
    """A thread for each of these streams, which has the queue's lock again and again."""
    stops = threading.Event()

    def work(stream):
        buffer = weir.make_resource(stream.device).allocate(4096, stream=stream)
        while not stops.is_set():
            for _ in range(8):  # a queue has no bound
                buffer.fill(1, stream=stream)
                stream.flush()
            stream.synchronize()

    threads = [threading.Thread(target=work, args=(stream,), daemon=True) for stream in streams]
    with not_for_ever():
        for thread in threads:
            thread.start()
        yield
        stops.set()
        for thread in threads:
            thread.join()


@pytest.fixture
def locked_by_python(application):
    """Whoever wants the queue's lock needs the GIL, which a thread that gives up memory has."""
    device = weir.vulkan.adopt(**handles(application, queues=[(application.queue, threading.Lock())]))
    yield device
    gc.collect()
    weir.vulkan.release(device)


@pytest.mark.parametrize("end", ["buffer", "close", "stream"])
def test_what_ends_while_another_thread_has_the_queue(locked_by_python, end):
    device = locked_by_python
    resource, stream = weir.make_resource(device), weir.Stream(device)
    with flushing(weir.Stream(device), weir.Stream(device)):
        for _ in range(500):
            buffer = resource.allocate(4096, stream=stream)
            on = weir.Stream(device) if end == "stream" else stream
            buffer.fill(2, stream=on)
            if end == "close":
                buffer.close()
            del on, buffer
            if end == "stream":
                stream.flush()


def test_a_pool_ends_while_another_thread_has_the_stream_that_it_waits_for(application):
    """That thread needs the GIL to go on, which the one that drops the pool has."""
    inside, goes_on = threading.Event(), threading.Event()

    class Slow(Lock):
        def acquire(self):
            super().acquire()
            if threading.current_thread() is thread:
                inside.set()
                goes_on.wait()

    device = weir.vulkan.adopt(**handles(application, queues=[(application.queue, Slow())]))
    pool, stream, flushed = weir.make_pool(device), weir.Stream(device), weir.Stream(device)
    thread = threading.Thread(target=flushed.flush)
    buffer, other = pool.allocate(4096, stream=stream), weir.make_resource(device).allocate(4096, stream=flushed)
    buffer.fill(2, stream=flushed)
    buffer.close()
    other.fill(2, stream=flushed)
    with not_for_ever():
        thread.start()
        inside.wait()
        goes_on.set()
        del pool
        thread.join()
    del stream, flushed, other
    gc.collect()
    weir.vulkan.release(device)


@pytest.mark.parametrize("ask", ["__dlpack__", "exchange"])
def test_an_export_to_cuda_while_another_thread_has_the_queue(locked_by_python, ask):
    cuda = next((device for device in weir.devices() if device.backend == "cuda"), None)
    if cuda is None:
        pytest.skip("no device of CUDA: its driver or a GPU is missing")
    ffi = pytest.importorskip("tvm_ffi") if ask == "exchange" else None
    stream = weir.Stream(locked_by_python)
    written = weir.make_resource(locked_by_python).allocate(4096, stream=stream)
    exported = weir.make_resource(cuda).allocate(4096, stream=weir.Stream(cuda))
    tensor = exported.view("uint8", (4096,))
    with flushing(stream, weir.Stream(locked_by_python)):
        for _ in range(100):
            written.fill(2, stream=stream)
            exported.use_on(stream)
            ffi.from_dlpack(tensor) if ffi else exported.__dlpack__(stream=1, max_version=(1, 3))


def test_a_commit_while_another_thread_has_the_queue(locked_by_python, tmp_path):
    path, stream = str(tmp_path / "holder"), weir.Stream(locked_by_python)
    tensor = weir.make_shared_resource().allocate(64, stream=weir.Stream(weir.host_device())).view("uint8")
    with subprocess.Popen([sys.executable, "-m", "weir", "hold", path], stdout=subprocess.PIPE) as holder:
        try:
            holder.stdout.readline()
            writer = weir.ipc.SetWriter(path, "set")
            with flushing(stream, stream):
                for _ in range(50):
                    writer.commit({"tensor": tensor}, stream=stream)
        finally:
            holder.kill()


SERVER_ENDS = """
import faulthandler, sys, threading, time
faulthandler.dump_traceback_later(60, exit=True)
from vulkan_application import Application
import weir

class Lock:
    lock, inside = threading.Lock(), threading.Event()

    def acquire(self):
        self.lock.acquire()
        with open(f"/proc/self/task/{threading.get_native_id()}/comm") as name:
            serves = name.read() == "weir names\\n"
        if serves:
            self.inside.set()
            time.sleep(0.2)  # the main thread goes on, and this one needs the GIL again

    def release(self):
        self.lock.release()

application, lock, host = Application(), Lock(), weir.Stream(weir.host_device())
device = weir.vulkan.adopt(instance=application.instance, physical_device=application.physical,
                           device=application.device, queues=[(application.queue, lock)],
                           queue_family=application.family, timeline_semaphore=True)
stream = weir.Stream(device)
written = weir.make_resource(device).allocate(4096, stream=stream)
shown = weir.make_shared_resource().allocate(64, stream=host)
server = weir.ipc.Server(sys.argv[1])
server.publish("a", shown, stream=stream)
client = weir.ipc.Client(sys.argv[1], timeout=60)

def ask():
    try:
        while True:
            client.get("a", stream=host, timeout=60)
    except weir.Error:
        pass

threading.Thread(target=ask, daemon=True).start()
while not lock.inside.wait(0.001):
    written.fill(1, stream=stream)
    server.publish("a", shown, stream=stream)
END
print("ended")
"""


@pytest.mark.parametrize("end", ["del server", "server.close()", "pass"])
def test_a_server_ends_while_its_thread_waits_for_the_queue(application, tmp_path, end):
    """The thread needs the GIL to go on. With "pass" the server ends with the interpreter."""
    program = SERVER_ENDS.replace("END", end)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "server")], env=environment,
                          capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr
    assert not (tmp_path / "server").exists()


def test_a_lock_that_fails(application, monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda failed: seen.append(failed.exc_type))

    class Broken:
        def acquire(self):
            raise ZeroDivisionError

        def release(self):
            raise AssertionError("what was not acquired is not released")

    device = weir.vulkan.adopt(**handles(application, queues=[(application.queue, Broken())]))
    weir.vulkan.release(device)
    assert set(seen) == {ZeroDivisionError}


def test_an_interrupted_lock_is_taken_all_the_same(application):
    class Interrupted(Lock):
        left = 2

        def acquire(self):
            if self.left:
                self.left -= 1
                raise KeyboardInterrupt
            super().acquire()

    lock = Interrupted()
    device = weir.vulkan.adopt(**handles(application, queues=[(application.queue, lock)]))
    signalled = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: signalled.set())
    try:
        weir.vulkan.release(device)
        assert signalled.wait(60), "it is answered later"
    finally:
        signal.signal(signal.SIGINT, before)
    assert lock.taken > 0 and lock.left == 0 and not lock.lock.locked()


def test_a_buffer_of_the_application(application, adopted):
    class Owner:
        pass

    buffer, memory = application.buffer(4096)
    stream, owner = weir.Stream(adopted), Owner()
    alive = weakref.ref(owner)
    wrapped = weir.vulkan.wrap(adopted, buffer, 4096, owner, stream=stream, memory=memory)
    del owner
    native = weir.vulkan.native(wrapped)
    assert (native.buffer, native.memory, native.size) == (buffer.value, memory.value, 4096)
    assert (native.offset, native.memory_offset, native.allocation_size) == (0, 0, 0)
    wrapped.fill(5, stream=stream)
    other = weir.vulkan.wrap(adopted, buffer.value, 1024, None, stream=stream, memory=memory.value)
    out = other.copy_to(bytearray(1024), stream=stream)
    stream.synchronize()
    assert out == b"\5" * 1024 and alive() is not None
    other.close(), wrapped.close()
    stream.synchronize()
    weir.make_resource(adopted).trim()
    stream.synchronize()
    assert alive() is None


def test_a_wrap_that_fails_drops_its_owner(application, adopted):
    class Owner:
        pass

    owner, stream = Owner(), weir.Stream(adopted)
    alive = weakref.ref(owner)
    with pytest.raises(weir.Error):
        weir.vulkan.wrap(adopted, 0, 4096, owner, stream=stream)
    del owner
    assert alive() is None


def test_semaphores(application, adopted):
    stream = weir.Stream(adopted)
    buffer = weir.make_resource(adopted, "readback").allocate(64, stream=stream)
    semaphore = application.semaphore()
    application.signal(semaphore, 7)
    weir.vulkan.wait(stream, semaphore, 7)
    buffer.fill(1, stream=stream)
    native = weir.vulkan.native(stream)
    assert (native.device, native.queue, native.family) == (
        application.device.value, application.queue.value, application.family)
    stream.synchronize()
    assert application.value(native.semaphore) >= native.value > 0


def test_refusals(application):
    def refused(**others):
        with pytest.raises(weir.Error) as caught:
            weir.vulkan.adopt(**handles(application, **others))
        return caught.value.condition

    assert refused(timeline_semaphore=False) == weir.Errc.unsupported
    assert refused(queues=[]) == weir.Errc.invalid_argument
    assert refused(queues=[application.queue, application.queue]) == weir.Errc.invalid_argument
    assert refused(device=0) == weir.Errc.invalid_argument
    assert refused(queue_family=1 << 40) == weir.Errc.invalid_argument
    for others, text in [
        ({"device": "here"}, "device must be an int or a pointer of ctypes, not str"),
        ({"queues": application.queue}, "queues must be a list of handles"),
        ({"queues": (application.queue, None)}, "queues must be a list of handles"),
        ({"queues": [(application.queue, object())]}, "acquire of a queue's lock must be callable, not NoneType"),
        ({"queues": [(application.queue,)]}, "a queue must be a handle or a tuple"),
    ]:
        with pytest.raises(TypeError, match=text):
            weir.vulkan.adopt(**handles(application, **others))
    device = weir.vulkan.adopt(**handles(application))
    stream = weir.Stream(device)
    with pytest.raises(weir.Error) as caught:
        weir.vulkan.release(device)
    assert caught.value.condition == weir.Errc.invalid_argument
    del stream
    weir.vulkan.release(device)
    host = weir.make_resource(weir.host_device()).allocate(1, stream=weir.Stream(weir.host_device()))
    with pytest.raises(weir.Error):
        weir.vulkan.native(host)
