# SPDX-License-Identifier: Apache-2.0
"""A pool with a limit, and statistics around it: what a part of a program used, and what happens at the limit."""

import weir

device = weir.best_device()
stream = weir.Stream(device)
pool = weir.make_pool(device, limit=64 << 20)
memory = weir.make_statistics(pool)

# The first buffer asks the driver. The others get its memory again, in order of the stream.
with weir.StatisticsScope(memory) as scope:
    for _ in range(1000):
        buffer = memory.allocate(100_000, stream=stream)
        buffer.fill(1, stream=stream)
        buffer.close()
buffers, size = scope.statistics().buffers, scope.statistics().bytes
print(f"{device.id}: {buffers.total} buffers, {size.peak} bytes at most; asked the driver {pool.pool_stats()['grown']} times")
assert (buffers.total, buffers.current, size.peak) == (1000, 0, 100_000)

# At the limit an exception says how much there is. `try_allocate` returns None instead.
kept = [memory.allocate(16 << 20, stream=stream) for _ in range(3)]
assert memory.try_allocate(32 << 20, stream=stream) is None
try:
    memory.allocate(32 << 20, stream=stream)
except weir.OutOfMemory as full:
    print(f"no {full.requested} bytes more: {full.in_use} of {full.limit} are in use")

# What is closed is there for the next one, and what is idle goes back to the driver.
kept.clear()
memory.allocate(32 << 20, stream=stream).close()
stream.synchronize()
print(f"{pool.trim()} bytes went back to the driver")
