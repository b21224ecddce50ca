# SPDX-License-Identifier: Apache-2.0
"""A function of Python that is asked when memory runs out."""

import gc
import subprocess
import sys
import textwrap
import threading
import weakref

import pytest

import weir

LIMIT = 1000


def over(memory, callback, **options):
    return weir.make_failure_callback(weir.make_limiting(memory.resource, LIMIT), callback, **options)


def test_what_it_closes_is_there(memory):
    spilled, seen = [], []

    def spill(failure):
        seen.append(failure)
        spilled.pop().close()
        return True

    resource = over(memory, spill)
    assert type(resource) is weir.MemoryResource
    spilled += [resource.allocate(300, stream=memory.stream) for _ in range(3)]
    assert seen == []
    buffer = resource.allocate(600, stream=memory.stream, alignment=512)
    assert buffer.size == 600 and len(spilled) == 1
    assert [(f.size, f.alignment, f.attempt) for f in seen] == [(600, 512, 1), (600, 512, 2)]
    first = seen[0]  # usable when the call is over
    assert first.stream == memory.stream
    assert (first.limit, first.in_use, first.resource) == (LIMIT, 900, resource.upstream.name)
    assert memory.device.id in first.device and first.call == ""
    assert repr(first) == f"<weir.AllocationFailure 600 bytes from {first.resource}, attempt 1>"


def test_it_is_told_what_the_resource_below_has(memory):
    segment, seen = 2 << 20, []
    pool = weir.make_pool(memory.resource, limit=2 * segment, segment_bytes=segment, patience=0)
    asking = weir.make_failure_callback(pool, seen.append)  # which returns None: not again
    kept = asking.allocate(5000, stream=memory.stream)
    memory.stream.synchronize()
    assert asking.try_allocate(2 * segment, stream=memory.stream) is None
    (failure,) = seen
    assert (failure.in_use, failure.reserved, failure.limit) == (kept.size, segment, 2 * segment)
    assert 0 < failure.largest_free == pool.pool_stats()["largest_free"] < segment
    assert failure.device_free == 0, "nobody asked the device"


@pytest.mark.parametrize("answer", [False, None, 0, ""])
def test_refusals(memory, answer):
    asked = []

    def refuse(failure):
        asked.append(failure.attempt)
        return answer

    resource = over(memory, refuse)
    with pytest.raises(weir.OutOfMemory) as raised:
        resource.allocate(LIMIT + 1, stream=memory.stream)
    assert raised.value.resource == resource.name and raised.value.limit == LIMIT
    assert resource.try_allocate(LIMIT + 1, stream=memory.stream) is None
    assert asked == [1, 1]


def test_it_is_asked_so_often(memory):
    asked = []

    def again(failure):
        asked.append(failure.attempt)
        return True

    assert over(memory, again, max_attempts=3).try_allocate(LIMIT + 1, stream=memory.stream) is None
    assert asked == [1, 2, 3]


class Spilt(Exception):
    pass


@pytest.mark.parametrize("call", ["allocate", "try_allocate"])
@pytest.mark.parametrize("error", [Spilt, KeyboardInterrupt, MemoryError, weir.Error])
def test_its_exceptions_reach_the_caller(memory, call, error):
    def fail(failure):
        raise error("from the callback")

    resource = over(memory, fail)
    with pytest.raises(error, match="from the callback") as raised:
        getattr(resource, call)(LIMIT + 1, stream=memory.stream)
    assert any(entry.name == "fail" for entry in raised.traceback)
    assert resource.stats()["live_buffers"] == 0
    assert resource.allocate(LIMIT, stream=memory.stream).size == LIMIT


def test_exceptions_pass_through_a_pool_above(memory):
    def fail(failure):
        raise Spilt(failure.size)

    pool = weir.make_pool(over(memory, fail))
    for _ in range(3):
        with pytest.raises(Spilt):
            pool.allocate(2 * LIMIT, stream=memory.stream)
    assert pool.pool_stats()["reserved"] == 0


def test_an_answer_without_a_truth_is_an_error(memory):
    class Unknown:
        def __bool__(self):
            raise Spilt

    with pytest.raises(Spilt):
        over(memory, lambda failure: Unknown()).allocate(LIMIT + 1, stream=memory.stream)


def test_wrong_signatures_are_errors(memory):
    with pytest.raises(TypeError, match="positional argument"):
        over(memory, lambda: True).allocate(LIMIT + 1, stream=memory.stream)


def test_it_may_allocate_from_the_resource_that_asks(memory):
    kept = []

    def spill(failure):
        kept[0].close()
        kept.append(resource().allocate(100, stream=failure.stream))
        assert resource().try_allocate(LIMIT, stream=failure.stream) is None  # and is not asked again
        return len(kept) < 5

    made = over(memory, spill)
    resource = weakref.ref(made)
    kept.append(made.allocate(LIMIT, stream=memory.stream))
    assert made.allocate(LIMIT - 100, stream=memory.stream).size == LIMIT - 100
    assert len(kept) == 2


def test_threads_are_asked_at_the_same_time(memory):
    both = threading.Barrier(2)  # passed only by two that are inside at once

    def refuse(failure):
        both.wait(timeout=60)
        return False

    resource = over(memory, refuse)
    answers = []

    def work():
        stream = weir.Stream(memory.device)
        answers.append(resource.try_allocate(LIMIT + 1, stream=stream))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [None, None] and not both.broken


def test_others_use_the_resource_meanwhile(memory):
    inside, done = threading.Event(), threading.Event()

    def refuse(failure):
        inside.set()
        assert done.wait(timeout=60)
        return False

    resource = over(memory, refuse)
    thread = threading.Thread(target=lambda: resource.try_allocate(LIMIT + 1, stream=memory.stream))
    thread.start()
    assert inside.wait(timeout=60)
    with resource.allocate(LIMIT, stream=weir.Stream(memory.device)) as buffer:  # no lock is held over there
        assert resource.stats()["in_use"] == buffer.size
    done.set()
    thread.join()


def test_it_lives_as_long_as_the_resource(memory):
    class Callback:
        def __call__(self, failure):
            return False

    callback = Callback()
    alive = weakref.ref(callback)
    resource = over(memory, callback)
    buffer = resource.allocate(10, stream=memory.stream)
    del callback, resource
    gc.collect()
    assert alive() is not None, "the buffer keeps the resource"
    buffer.close()
    memory.stream.synchronize()
    gc.collect()
    assert alive() is None


def test_it_goes_when_a_thread_without_the_gil_drops_the_resource(pageable):
    class Callback:
        def __call__(self, failure):
            return False

    callback = Callback()
    alive = weakref.ref(callback)
    gone = threading.Event()
    weakref.finalize(callback, gone.set)
    buffer = over(pageable, callback).allocate(10, stream=pageable.stream)
    del callback
    gc.collect()
    assert alive() is not None
    buffer.close()  # drops the last of the resource while it runs without the GIL
    assert gone.wait(timeout=60) and alive() is None


def test_arguments(memory):
    with pytest.raises(TypeError, match="callback must be callable, not str"):
        weir.make_failure_callback(memory.resource, "spill")
    with pytest.raises(TypeError, match="max_attempts must be an integer, not float"):
        over(memory, print, max_attempts=1.0)
    with pytest.raises(weir.Error, match="make_failure_callback: max_attempts is 0") as raised:
        over(memory, print, max_attempts=0)
    assert raised.value.condition == weir.Errc.invalid_argument


def test_the_interpreter_ends_with_one_alive():
    program = """
        import weir
        host = weir.host_device()
        class Callback:
            def __call__(self, failure): return False
        kept = weir.make_failure_callback(weir.make_limiting(weir.make_pool(host), 100), Callback())
        weir.set_current_resource(host, kept)
        weir.kept = kept.allocate(10, stream=weir.Stream(host))
        assert kept.try_allocate(1000, stream=weir.Stream(host)) is None
        """
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(program)],
        capture_output=True, text=True, timeout=60, check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
