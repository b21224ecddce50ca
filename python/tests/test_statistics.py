# SPDX-License-Identifier: Apache-2.0
"""What a part of a program uses: in all, and in scopes."""

import threading

import pytest

import weir


@pytest.fixture
def counted(memory):
    return weir.make_statistics(weir.make_limiting(memory.resource, 10_000))


def figures(counter):
    return (counter.current, counter.peak, counter.total)


def test_the_whole_time(memory, counted):
    assert isinstance(counted, weir.StatisticsResource)
    kept = counted.allocate(300, stream=memory.stream)
    counted.allocate(200, stream=memory.stream).close()
    assert counted.try_allocate(20_000, stream=memory.stream) is None
    s = counted.statistics()
    assert figures(s.bytes) == (300, 500, 500) and figures(s.buffers) == (1, 2, 2) and s.refused == 1
    assert repr(s.bytes) == "<weir.Counter 300 now, 500 at most, 500 in all>"
    assert repr(s).startswith("<weir.AllocationStatistics bytes: 300 now") and repr(s).endswith("1 refused>")
    kept.close()
    assert figures(s.bytes) == (300, 500, 500), "a value"
    assert figures(counted.statistics().bytes) == (0, 500, 500)


def test_scopes_begin_at_nothing(memory, counted):
    before = counted.allocate(300, stream=memory.stream)
    with weir.StatisticsScope(counted) as outer:
        inside = counted.allocate(100, stream=memory.stream)
        with weir.StatisticsScope(counted) as inner:
            before.close()
            assert figures(inner.statistics().bytes) == (-300, 0, 0)
        assert figures(outer.statistics().bytes) == (-200, 100, 100)
        inside.close()
        kept = counted.allocate(50, stream=memory.stream)
    other = counted.allocate(1000, stream=memory.stream)
    assert figures(inner.statistics().bytes) == (-300, 0, 0), "it has ended"
    assert figures(outer.statistics().bytes) == (-250, 100, 150)
    assert outer.statistics().buffers.total == 2
    assert figures(counted.statistics().bytes) == (kept.size + other.size, 1050, 1450)


def test_scopes_end_in_any_order_and_however_they_are_left(memory, counted):
    first, second = weir.StatisticsScope(counted), weir.StatisticsScope(counted)
    counted.allocate(10, stream=memory.stream).close()
    first.end()
    counted.allocate(20, stream=memory.stream).close()
    first.end()
    with pytest.raises(KeyError), second:
        raise KeyError
    counted.allocate(40, stream=memory.stream).close()
    assert (first.statistics().bytes.total, second.statistics().bytes.total) == (10, 30)
    with pytest.raises(weir.Error, match="StatisticsScope: the scope has ended") as raised, first:
        pass
    assert raised.value.condition == weir.Errc.closed


def test_a_scope_may_outlive_its_resource(memory, counted):
    scope = weir.StatisticsScope(counted)
    kept = counted.allocate(10, stream=memory.stream)
    del counted
    assert scope.statistics().bytes.current == kept.size


def test_pushed_counters(memory, counted):
    counted.push_counters()
    counted.allocate(10, stream=memory.stream).close()
    counted.push_counters()
    counted.allocate(20, stream=memory.stream).close()
    assert counted.statistics().bytes.total == 20
    assert counted.pop_counters().bytes.total == 20
    assert figures(counted.pop_counters().bytes) == (0, 20, 30)
    with pytest.raises(weir.Error, match="pop_counters") as raised:
        counted.pop_counters()
    assert raised.value.condition == weir.Errc.invalid_argument


def test_scopes_are_of_counting_resources(memory):
    for wrong in (memory.resource, None, weir.make_limiting(memory.resource, 10)):
        with pytest.raises(TypeError, match="StatisticsScope|__init__"):
            weir.StatisticsScope(wrong)


def test_all_threads_count_together(memory, counted):
    rounds, threads = 200, 4

    def work():
        stream = weir.Stream(memory.device)
        for _ in range(rounds):
            with weir.StatisticsScope(counted) as scope:
                counted.allocate(10, stream=stream).close()
            assert scope.statistics().bytes.total >= 10

    with weir.StatisticsScope(counted) as whole:
        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    s = whole.statistics()
    assert s.buffers.total == rounds * threads and s.bytes.total == 10 * rounds * threads
    assert (s.bytes.current, s.refused) == (0, 0) and 10 <= s.bytes.peak <= 10 * threads
