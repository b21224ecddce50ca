# SPDX-License-Identifier: Apache-2.0
"""A resource over two functions of Python."""

import ctypes
import gc
import math
import subprocess
import sys
import textwrap
import threading
import weakref

import pytest

import weir

libc = ctypes.CDLL(None)
libc.aligned_alloc.restype = ctypes.c_void_p
libc.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]


class Heap:
    """Memory of the C library, and what was asked of it."""

    def __init__(self):
        self.live, self.asked = {}, []

    def allocate(self, size, stream):
        self.asked.append((size, stream))
        address = libc.aligned_alloc(256, -(-size // 256) * 256)
        self.live[address] = size
        return address

    def deallocate(self, address, size):
        assert self.live.pop(address) == size
        libc.free(address)


def over(heap, **options):
    return weir.make_callback_resource(weir.host_device(), heap.allocate, heap.deallocate, **options)


@pytest.fixture
def stream():
    return weir.Stream(weir.host_device())


def test_memory_of_the_functions(stream):
    heap = Heap()
    resource = over(heap, name="heap")
    assert (resource.name, resource.kind) == ("host.heap", weir.MemoryKind.external)
    assert resource.is_host_accessible and not resource.is_exportable
    buffer = resource.allocate(1000, stream=stream)
    assert heap.asked == [(1000, stream)]
    assert list(heap.live) == [buffer.host_data] and buffer.is_host_accessible
    buffer.fill(7, stream=stream)
    assert bytes(buffer) == b"\x07" * 1000
    buffer.close()
    resource.trim()
    assert heap.live == {} and resource.stats()["live_buffers"] == 0


def test_nothing_is_asked_for_zero_bytes(stream):
    heap = Heap()
    assert over(heap).allocate(0, stream=stream).size == 0
    assert heap.asked == []


def test_larger_alignments_come_from_more_bytes(stream):
    heap = Heap()
    buffer = over(heap).allocate(100, stream=stream, alignment=4096)
    assert buffer.host_data % 4096 == 0 and heap.asked[0][0] == 100 + 4096 - 256
    buffer.close()


def test_a_pool_above(stream):
    heap = Heap()
    pool = weir.make_pool(over(heap))
    for _ in range(10):
        pool.allocate(100, stream=stream).close()
    assert len(heap.asked) == 1 and len(heap.live) == 1
    stream.synchronize()
    pool.trim()
    assert heap.live == {}


def full(size, stream):
    return None


def refuses(size, stream):
    raise MemoryError(f"no {size} bytes today")


class Speechless(MemoryError):
    def __str__(self):
        raise ValueError("no words")


def raises(error):
    def allocate(size, stream):
        raise error

    return allocate


@pytest.mark.parametrize("allocate, text", [
    (full, "tiny"),
    (lambda size, stream: 0, "tiny"),
    (refuses, "no 10 bytes today"),
    (raises(MemoryError("\ud800 is full")), r"\\ud800 is full"),
    (raises(Speechless()), "Speechless"),
])
def test_exhaustion(stream, allocate, text):
    resource = weir.make_callback_resource(weir.host_device(), allocate, print, name="tiny")
    with pytest.raises(weir.OutOfMemory, match=text) as raised:
        resource.allocate(10, stream=stream)
    assert raised.value.requested == 10 and raised.value.resource == "host.tiny"
    assert resource.try_allocate(10, stream=stream) is None


class Broken(Exception):
    pass


@pytest.mark.parametrize("error", [Broken, KeyboardInterrupt, weir.Error])
@pytest.mark.parametrize("call", ["allocate", "try_allocate"])
def test_exceptions_reach_the_caller(stream, error, call):
    def fail(size, stream):
        raise error("from the function")

    resource = weir.make_callback_resource(weir.host_device(), fail, print)
    for source in (resource, weir.make_pool(resource)):
        with pytest.raises(error, match="from the function") as raised:
            getattr(source, call)(10, stream=stream)
        assert any(entry.name == "fail" for entry in raised.traceback)
        assert source.stats()["live_buffers"] == 0


@pytest.mark.parametrize("answer", ["here", True, 1.5])
def test_what_is_no_address_is_an_error(stream, answer):
    resource = weir.make_callback_resource(weir.host_device(), lambda size, stream: answer, print)
    with pytest.raises(TypeError, match="what `allocate` returns must be an integer, not"):
        resource.allocate(10, stream=stream)


def test_memory_that_is_not_aligned_goes_back(stream):
    given_back = []
    resource = weir.make_callback_resource(
        weir.host_device(), lambda size, stream: 0x1001, lambda address, size: given_back.append((address, size))
    )
    with pytest.raises(weir.Error, match="not aligned to 256") as raised:
        resource.allocate(10, stream=stream)
    assert raised.value.condition == weir.Errc.incompatible
    resource.trim()
    assert given_back == [(0x1001, 10)]


def test_exceptions_of_deallocate_are_unraisable(stream, monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda failed: seen.append((failed.exc_type, failed.object)))
    heap = Heap()

    def fail(address, size):
        heap.deallocate(address, size)
        raise Broken

    resource = weir.make_callback_resource(weir.host_device(), heap.allocate, fail)
    resource.allocate(10, stream=stream).close()
    resource.trim()
    assert heap.live == {} and seen == [(Broken, fail)]


def test_an_exception_in_flight_stays(stream):
    heap, ended = Heap(), []

    def deallocate(address, size):
        ended.append(sum(len(str(number)) for number in range(10)))  # would stop at an exception that is set
        heap.deallocate(address, size)

    resource = weir.make_callback_resource(weir.host_device(), heap.allocate, deallocate)
    with pytest.raises(TypeError, match="must be real number"):
        math.sqrt(resource.allocate(10, stream=stream))  # which drops the buffer after it has set the exception
    assert ended == [10] and heap.live == {}


def test_deallocate_on_cuda_waits_for_the_last_use(cuda):
    given_back = threading.Event()
    pinned = weir.make_resource(cuda.device, weir.MemoryKind.pinned)
    owners = {}

    def allocate(size, stream):
        owner = pinned.allocate(size, stream=stream)
        owners[owner.device_address] = owner
        return owner.device_address

    def deallocate(address, size):
        owners.pop(address).close()
        given_back.set()

    resource = weir.make_callback_resource(cuda.device, allocate, deallocate, host_accessible=True)
    buffer = resource.allocate(4096, stream=cuda.stream)
    buffer.fill(9, stream=cuda.stream)
    out = bytearray(4096)
    buffer.copy_to(out, stream=cuda.stream)
    buffer.close()
    cuda.stream.synchronize()
    resource.trim()
    assert given_back.is_set() and owners == {} and out == b"\x09" * 4096


def test_threads_are_inside_at_the_same_time(stream):
    heap, both = Heap(), threading.Barrier(2)

    def allocate(size, stream):
        both.wait(timeout=60)  # passed only by two that are inside at once
        return heap.allocate(size, stream)

    resource = weir.make_callback_resource(weir.host_device(), allocate, heap.deallocate)
    threads = [
        threading.Thread(target=lambda: resource.allocate(10, stream=weir.Stream(weir.host_device())).close())
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    resource.trim()
    assert not both.broken and heap.live == {}


def test_the_functions_may_use_weir(stream):
    """No lock of weir's is held in a function, not of the resource and not of the pool above it."""
    heap = Heap()

    def allocate(size, stream):
        pool().stats(), pool().trim(), pool().upstream.stats()
        return heap.allocate(size, stream)

    def deallocate(address, size):
        heap.deallocate(address, size)
        if pool():
            pool().stats(), pool().trim(), pool().upstream.stats()

    kept = weir.make_pool(weir.make_callback_resource(weir.host_device(), allocate, deallocate))
    pool = weakref.ref(kept)
    buffers = [kept.allocate(3 << 20, stream=stream) for _ in range(3)]
    for buffer in buffers:
        buffer.close()
    stream.synchronize()
    kept.trim()
    assert heap.live == {}


def test_work_of_a_stream_is_the_last_owner(stream):
    """Then it is a thread of weir, which knows no Python, that has memory for `deallocate`."""
    heap = Heap()
    other = weir.Stream(weir.host_device())
    resource = over(heap)
    plain = weir.make_resource(weir.host_device())
    target = plain.allocate(1 << 22, stream=other)
    buffer = resource.allocate(1 << 22, stream=stream)
    for value in range(50):
        buffer.fill(value, stream=stream)
        buffer.copy_to(target, stream=other)
    del buffer, resource
    stream.synchronize(), other.synchronize()
    plain.trim()
    assert heap.live == {}


def test_the_functions_live_as_long_as_memory(stream):
    class Caller:
        def __init__(self, function):
            self.function = function

        def __call__(self, *arguments):
            return self.function(*arguments)

    heap = Heap()
    functions = [Caller(heap.allocate), Caller(heap.deallocate)]
    alive = [weakref.ref(function) for function in functions]
    resource = weir.make_callback_resource(weir.host_device(), *functions)
    buffer = resource.allocate(10, stream=stream)
    del functions, resource
    gc.collect()
    assert all(function() for function in alive)
    buffer.close()
    weir.make_resource(weir.host_device()).trim()
    stream.synchronize()
    gc.collect()
    assert heap.live == {} and not any(function() for function in alive)


def test_arguments(stream):
    host = weir.host_device()
    with pytest.raises(TypeError, match="allocate must be callable, not int"):
        weir.make_callback_resource(host, 1, print)
    with pytest.raises(TypeError, match="deallocate must be callable, not NoneType"):
        weir.make_callback_resource(host, print, None)
    for device in weir.devices():
        if device.backend == "vulkan":
            with pytest.raises(weir.Error, match="no address") as raised:
                weir.make_callback_resource(device, print, print)
            assert raised.value.condition == weir.Errc.unsupported


def run(program, option="dev"):  # which has nanobind tell of objects that are left
    ended = subprocess.run(
        [sys.executable, "-X", option, "-c", textwrap.dedent(program)],
        capture_output=True, text=True, timeout=60, check=False,
    )
    return ended.returncode, ended.stdout, ended.stderr


PROLOGUE = """
        import ctypes, sys, threading
        import weir
        libc = ctypes.CDLL(None)
        libc.aligned_alloc.restype = ctypes.c_void_p
        host = weir.host_device()
        stream = weir.Stream(host)
        class Heap:
            def allocate(self, size, stream): return libc.aligned_alloc(256, 4096)
            def deallocate(self, address, size): print("back", size, flush=True)
        heap = Heap()
        resource = weir.make_callback_resource(host, heap.allocate, heap.deallocate)
"""


def test_the_interpreter_ends_with_memory_alive():
    assert run(PROLOGUE + """
        weir.set_current_resource(host, resource)
        weir.kept = resource.allocate(10, stream=stream)
        heap.circle = [resource, weir.kept]
        resource.allocate(20, stream=stream).close()
    """) == (0, "back 20\n", "")


def test_a_daemon_thread_allocates_while_the_interpreter_ends():
    assert run(PROLOGUE + """
        inside = threading.Event()
        def work():
            while True:
                pool = weir.make_pool(resource)
                pool.allocate(10, stream=stream)
                inside.set()
        give_back = lambda address, size: libc.free(ctypes.c_void_p(address))
        resource = weir.make_callback_resource(host, heap.allocate, give_back)
        threading.Thread(target=work, daemon=True).start()
        assert inside.wait(60)
    """, option="faulthandler") == (0, "", "")
