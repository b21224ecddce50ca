# SPDX-License-Identifier: Apache-2.0
"""Pools: every option, what they tell, and which class a resource has wherever it comes from."""

import gc
import json
import time

import numpy as np
import pytest

import weir

KIB, SEGMENT = 1 << 10, 2 << 20  # a multiple of every granularity


def reserved_in_the_end(pool, wanted):
    """What is reserved once that is `wanted`: another thread may have to wait for the last uses."""
    end = time.monotonic() + 30
    while pool.stats()["reserved"] != wanted and time.monotonic() < end:
        time.sleep(0.001)
    return pool.stats()["reserved"]


@pytest.fixture
def pool(memory):
    return weir.make_pool(memory.resource, segment_bytes=SEGMENT)


def test_memory_is_used_again(memory, pool):
    first = pool.allocate(4096, stream=memory.stream)
    first.fill(7, stream=memory.stream)
    assert memory.bytes_of(first) == b"\7" * 4096
    first.close()
    second = pool.allocate(4096, stream=memory.stream)
    stats = pool.pool_stats()
    assert (stats["allocations"], stats["live_buffers"], stats["segments"], stats["grown"]) == (2, 1, 1, 1)
    assert stats["reuses"] >= 1 and stats["streams"] == 1 and stats["waits"] == 0
    assert stats["cached"] == stats["reserved"] - stats["in_use"]
    assert memory.resource.stats()["live_buffers"] == 1, "the pool's segment"
    second.close()
    assert pool.trim() == stats["reserved"]
    after = pool.pool_stats()
    assert (after["reserved"], after["segments"], after["given_back"]) == (0, 0, 1)
    assert after["peak_reserved"] == stats["reserved"] == SEGMENT


def test_pool_stats_have_what_stats_have(memory, pool):
    kept = pool.allocate(100, stream=memory.stream)
    stats, more = pool.stats(), pool.pool_stats()
    moving = {"device_free", "device_budget"}
    assert {k: v for k, v in more.items() if k in stats and k not in moving} == {
        k: v for k, v in stats.items() if k not in moving
    }
    assert set(more) - set(stats) == {
        "cached", "largest_free", "segments", "streams", "reuses", "waits", "grown", "given_back", "moved",
    }
    assert more["in_use"] == kept.size == 100


def test_classes_of_resources(memory, pool):
    assert isinstance(pool, weir.Pool) and isinstance(pool, weir.MemoryResource)
    assert type(memory.resource) is weir.MemoryResource
    assert repr(pool) == f"<weir.Pool pool({memory.resource.name}) on {memory.device.id}>"
    assert pool.upstream is memory.resource
    buffer = pool.allocate(64, stream=memory.stream)
    assert buffer.memory_resource is pool
    stack = weir.make_statistics(pool)
    other = stack.allocate(64, stream=memory.stream)
    del stack, pool
    gc.collect()
    assert isinstance(other.memory_resource, weir.StatisticsResource)
    assert isinstance(other.memory_resource.upstream, weir.Pool)
    del other
    gc.collect()
    again = buffer.memory_resource  # a new handle: the last one is gone
    assert isinstance(again, weir.Pool) and again.pool_stats()["live_buffers"] == 1
    assert isinstance(weir.current_resource(memory.device), weir.Pool)


def test_over_a_device(memory):
    pool = weir.make_pool(memory.device)
    assert pool.device == memory.device
    with pool.allocate(1000, stream=memory.stream) as buffer:
        buffer.fill(3, stream=memory.stream)
        assert memory.bytes_of(buffer) == b"\3" * 1000


def test_exportable_pools(shared_memory):
    pool = weir.make_pool(shared_memory.device, exportable=True)
    assert pool.is_exportable
    buffer = pool.allocate(64, stream=shared_memory.stream)
    buffer.fill(5, stream=shared_memory.stream)
    opened = weir.ipc.open(buffer.ipc_descriptor(stream=shared_memory.stream), stream=shared_memory.stream)
    assert shared_memory.bytes_of(opened) == b"\5" * 64


def test_memory_that_is_not_exportable_makes_no_exportable_pool(memory):
    with pytest.raises(weir.Error, match="make_pool: an exportable pool over .* make that with exportable") as raised:
        weir.make_pool(memory.resource, exportable=True)
    assert raised.value.condition == weir.Errc.unsupported


def test_initial_bytes_and_segments(memory):
    pool = weir.make_pool(memory.resource, initial_bytes=3 * SEGMENT, segment_bytes=SEGMENT)
    assert pool.stats()["reserved"] >= 3 * SEGMENT and pool.pool_stats()["largest_free"] >= 2 * SEGMENT
    pool = weir.make_pool(memory.resource, segment_bytes=SEGMENT)
    assert pool.stats()["reserved"] == 0
    kept = pool.allocate(100, stream=memory.stream)
    assert pool.stats()["reserved"] == SEGMENT and kept.size == 100


def test_limits(memory):
    pool = weir.make_pool(memory.resource, limit=SEGMENT, segment_bytes=SEGMENT, patience=0)
    kept = pool.allocate(1200 * KIB, stream=memory.stream)
    with pytest.raises(weir.OutOfMemory) as raised:
        pool.allocate(1200 * KIB, stream=memory.stream)
    assert raised.value.limit == SEGMENT and raised.value.resource == pool.name
    pool.set_limit(np.int64(4 * SEGMENT))
    assert pool.allocate(1200 * KIB, stream=memory.stream).size == 1200 * KIB
    pool.set_limit(0)
    assert pool.try_allocate(3 * SEGMENT, stream=memory.stream) is None
    pool.set_limit(None)
    assert pool.try_allocate(3 * SEGMENT, stream=memory.stream).size == 3 * SEGMENT
    assert kept.size


def test_a_refusal_has_all_figures(memory):
    pool = weir.make_pool(memory.resource, limit=2 * SEGMENT, segment_bytes=SEGMENT, patience=0)
    kept = pool.allocate(5000, stream=memory.stream)
    memory.stream.synchronize()
    with pytest.raises(weir.OutOfMemory) as raised:
        pool.allocate(2 * SEGMENT, stream=memory.stream, alignment=512)
    error = raised.value
    assert (error.requested, error.alignment, error.in_use) == (2 * SEGMENT, 512, kept.size)
    assert (error.reserved, error.limit) == (SEGMENT, 2 * SEGMENT)
    assert 0 < error.largest_free == pool.pool_stats()["largest_free"] < SEGMENT
    assert (error.device_free, error.call) == (0, ""), "nobody asked the device"


def test_alignment(memory):
    pool = weir.make_pool(memory.resource, alignment=4096)
    for _ in range(3):
        buffer = pool.allocate(10, stream=memory.stream)
        assert buffer.host_data % 4096 == 0 and (buffer.device_address % 4096 == 0)


def test_release_threshold(memory):
    pool = weir.make_pool(memory.resource, segment_bytes=SEGMENT, release_threshold=0)
    pool.allocate(100, stream=memory.stream).close()
    assert reserved_in_the_end(pool, 0) == 0
    assert pool.pool_stats()["given_back"] == 1
    pool = weir.make_pool(memory.resource, segment_bytes=SEGMENT)
    pool.allocate(100, stream=memory.stream).close()
    assert pool.stats()["reserved"] == SEGMENT, "the default keeps everything"
    pool.set_release_threshold(0)
    assert reserved_in_the_end(pool, 0) == 0
    pool.set_release_threshold(None)
    pool.allocate(100, stream=memory.stream).close()
    assert pool.stats()["reserved"] == SEGMENT


@pytest.mark.parametrize("policy", [*weir.ReusePolicy, *(p.name for p in weir.ReusePolicy)])
def test_reuse_policies(memory, policy):
    pool = weir.make_pool(memory.resource, reuse=policy)
    pool.set_reuse_policy(policy)
    assert pool.allocate(10, stream=memory.stream).size == 10


def test_dump_is_json(memory, pool):
    kept = pool.allocate(5000, stream=memory.stream)
    told = json.loads(pool.dump())
    assert told["pool"] == pool.name and told["stats"]["in_use"] == kept.size
    assert len(told["streams"]) == 1
    assert sum(r["state"] == "live" for region in told["regions"] for r in region["ranges"]) == 1


def test_a_dump_has_the_figures_of_the_pool_and_of_its_streams(memory, pool):
    for buffer in [pool.allocate(SEGMENT, stream=memory.stream) for _ in range(3)]:
        buffer.close()
    memory.stream.synchronize()
    pool.trim()
    large, small = (pool.allocate(size, stream=memory.stream) for size in (SEGMENT, 5000))
    for _ in range(7):
        pool.allocate(3000, stream=memory.stream).close()
    told, stats = json.loads(pool.dump()), pool.pool_stats()
    assert told["stats"] == stats
    assert (stats["peak_reserved"], stats["given_back"]) == (3 * SEGMENT, 3)
    ranges = [r for region in told["regions"] for r in region["ranges"]]
    assert told["streams"] == [
        {
            "stream": memory.stream.id,
            "live_buffers": 2,
            "in_use": large.size + small.size,
            "peak_in_use": 3 * SEGMENT,
            "allocations": 12,
            "reuses": stats["reuses"],
            "cached": sum(r["bytes"] for r in ranges if r["state"] == "cached"),
            "waiting": 0,
        }
    ]
    assert all(r.get("stream", memory.stream.id) == memory.stream.id for r in ranges)


def test_a_dump_says_where_ranges_are(memory, pool):
    large, small = (pool.allocate(size, stream=memory.stream) for size in (SEGMENT, 5000))
    live = []
    for region in json.loads(pool.dump())["regions"]:
        ranges = region["ranges"]
        for one, another in zip(ranges, ranges[1:]):
            assert one["offset"] + one["bytes"] == another["offset"]
        size = sum(r["bytes"] for r in ranges)
        assert size == region["bytes"] or region["paged"] and size < region["bytes"]
        begin = int(region["address"], 16) - (ranges[0]["offset"] if ranges else 0)
        live += [begin + r["offset"] for r in ranges if r["state"] == "live"]
    assert len(live) == 2
    addresses = sorted(buffer.device_address or buffer.host_data for buffer in (large, small))
    if all(addresses):  # Vulkan's memory has none, unless the host reaches it
        assert sorted(live) == addresses


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"initial_bytes": -1}, ValueError, "initial_bytes must not be negative: -1"),
        ({"limit": -1}, ValueError, "limit must not be negative"),
        ({"limit": 1.5}, TypeError, "limit must be an integer, not float"),
        ({"segment_bytes": "1M"}, TypeError, "segment_bytes must be an integer, not str"),
        ({"segment_bytes": 0}, weir.Error, "make_pool: segments of no bytes"),
        ({"growth": 1.5}, weir.Error, "make_pool: growth by 1.5.* it is from 0 to 1"),
        ({"growth": float("nan")}, weir.Error, "make_pool: growth by"),
        ({"alignment": 3}, weir.Error, "make_pool: alignment 3 is not a power of two"),
        ({"alignment": True}, TypeError, "alignment must be an integer, not bool"),
        ({"reuse": "soon"}, ValueError, "no reuse policy is named 'soon'; there are passed_only wait_rather_than_fail"),
        ({"reuse": 1}, TypeError, "reuse must be a weir.ReusePolicy or its name, not int"),
        ({"release_threshold": 1 << 80}, OverflowError, "release_threshold does not fit into 64 bits"),
        ({"patience": -0.5}, ValueError, "patience must be a number of seconds >= 0"),
        ({"patience": float("nan")}, ValueError, "patience must be a number of seconds >= 0"),
    ],
)
def test_options_that_no_pool_has(pageable, options, error, words):
    with pytest.raises(error, match=words):
        weir.make_pool(pageable.resource, **options)
    assert pageable.resource.stats()["live_buffers"] == 0


def test_a_pool_needs_something_below(pageable):
    with pytest.raises(TypeError, match="upstream must be a weir.Device or a MemoryResource, not str"):
        weir.make_pool("host")
    with pytest.raises(TypeError):
        weir.make_pool(pageable.resource, 100)  # options have names
    with pytest.raises(weir.OutOfMemory):
        weir.make_pool(pageable.resource, initial_bytes=1 << 50)
    with pytest.raises(TypeError, match="policy must be a weir.ReusePolicy or its name, not float"):
        weir.make_pool(pageable.resource).set_reuse_policy(0.5)
    with pytest.raises(ValueError, match="bytes must not be negative"):
        weir.make_pool(pageable.resource).set_limit(-1)


def test_endless_patience(pageable):
    pool = weir.make_pool(pageable.resource, patience=float("inf"), limit=SEGMENT)
    assert pool.try_allocate(2 * SEGMENT, stream=pageable.stream) is None, "there is nothing to wait for"
