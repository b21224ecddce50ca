// SPDX-License-Identifier: Apache-2.0
// What only pools promise: no call upstream when warm, reuse in order, memory that goes back, limits.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <thread>

#include "pools.hpp"
#include "threads.hpp"

namespace weir::test {
namespace {

WEIR_FOR_EACH_POOL(Pools);

TEST_P(Pools, IsNamedAfterItsUpstream) {
  const auto pool = make();
  EXPECT_EQ(pool->name(), "pool(" + resource->name() + ")");
  EXPECT_EQ(pool->upstream(), resource);
  EXPECT_FALSE(pool->is_exportable());
}

TEST_P(Pools, AWarmAllocationDoesNotAskUpstream) {
  const auto pool = make({.initial_bytes = 4 * page});  // for all of them side by side
  for (std::size_t bytes : {1UL, 5000UL, 100000UL, 3 * page}) (void)pool->allocate(bytes, stream);
  const auto before = pool->pool_stats();
  const auto upstream = resource->stats().allocations;
  for (int i = 0; i < 100; ++i) {
    for (std::size_t bytes : {1UL, 256UL, 5000UL, 100000UL, 3 * page}) (void)pool->allocate(bytes, stream);
  }
  const auto after = pool->pool_stats();
  EXPECT_EQ(resource->stats().allocations, upstream);
  EXPECT_EQ(after.grown, before.grown);
  EXPECT_EQ(after.reuses - before.reuses, 500U);
}

TEST_P(Pools, TheSameStreamReusesWithoutWaiting) {
  const auto pool = make(tight(ReusePolicy::passed_only));
  Gate gate;
  gate.hold(stream);
  Bytes seen(1000);
  Buffer first = pool->allocate(page, stream);
  first.fill(std::uint8_t{1}, stream);
  first.copy_to(seen, stream);
  first.close();
  Buffer second = pool->allocate(page, stream);  // all there is: the first's memory, in stream order
  second.fill(std::uint8_t{2}, stream);
  EXPECT_FALSE(stream.done());
  gate.open();
  stream.synchronize();
  EXPECT_BYTES(seen, Bytes(1000, std::byte{1}));
}

TEST_P(Pools, AnotherStreamIsRefusedWhatIsNotPassed) {
  const auto pool = make(tight(ReusePolicy::passed_only));
  Gate gate;
  Buffer first = pool->allocate(page, stream);
  gate.hold(stream);
  first.fill(std::uint8_t{1}, stream);
  first.close();
  EXPECT_FALSE(pool->try_allocate(page, other).has_value());
  gate.open();
  stream.synchronize();
  EXPECT_TRUE(pool->try_allocate(page, other).has_value());
  EXPECT_EQ(pool->pool_stats().waits, 0U);
}

TEST_P(Pools, AnotherStreamWaitsOnItsOwnForThatUseAndNothingLater) {
  const auto pool = make(tight(ReusePolicy::wait_rather_than_fail));
  Gate gate, later;
  Bytes seen(1000);
  Buffer first = pool->allocate(page, stream);
  gate.hold(stream);
  first.fill(std::uint8_t{1}, stream);
  first.copy_to(seen, stream);
  first.close();
  later.hold(stream);
  Buffer unrelated = resource->allocate(1000, stream);
  unrelated.fill(std::uint8_t{3}, stream);
  Buffer second = pool->allocate(page, other);
  second.fill(std::uint8_t{2}, other);
  EXPECT_EQ(pool->pool_stats().waits, 1U);
  EXPECT_FALSE(other.done());
  gate.open();
  other.synchronize();
  EXPECT_FALSE(stream.done());
  EXPECT_BYTES(seen, Bytes(1000, std::byte{1}));
  EXPECT_BYTES(read(second, other), Bytes(page, std::byte{2}));
  later.open();
  stream.synchronize();
}

TEST_P(Pools, WaitingMayComeBeforeGrowing) {
  for (const bool wait : {true, false}) {
    const auto pool = make({.segment_bytes = page,
                            .reuse = wait ? ReusePolicy::wait_rather_than_grow : ReusePolicy::wait_rather_than_fail});
    Gate gate;
    Buffer first = pool->allocate(page, stream);
    gate.hold(stream);
    first.fill(std::uint8_t{1}, stream);
    first.close();
    (void)pool->allocate(page, other);
    EXPECT_EQ(pool->pool_stats().waits, wait ? 1U : 0U);
    EXPECT_EQ(pool->pool_stats().grown, wait ? 1U : 2U);
  }
}

TEST_P(Pools, UsesOnOtherStreamsComeFirst) {
  const auto pool = make(tight(ReusePolicy::wait_rather_than_fail));
  Bytes seen(page);
  Gate gate;
  Buffer first = pool->allocate(page, stream);
  write(first, pattern(page, 1), stream);
  stream.synchronize();
  gate.hold(other);
  first.copy_to(seen, other);
  first.close();
  EXPECT_FALSE(pool->try_allocate(page, stream).has_value()) << "used on the other stream";
  gate.open();
  other.synchronize();
  Buffer second = pool->allocate(page, stream);
  second.fill(std::uint8_t{2}, stream);
  stream.synchronize();
  EXPECT_BYTES(seen, pattern(page, 1));
}

TEST_P(Pools, MemoryOfAnEndedStreamServesOthers) {
  const auto pool = make(tight(ReusePolicy::passed_only));
  Buffer kept;
  {
    const Stream ending(device());
    (void)pool->allocate(page / 2, ending);
    kept = pool->allocate(page / 4, ending);
  }
  EXPECT_EQ(pool->pool_stats().streams, 1U) << "a live buffer keeps it";
  EXPECT_TRUE(pool->try_allocate(page / 2, stream).has_value());
  kept.close();
  EXPECT_EQ(pool->pool_stats().streams, 1U) << "of this test's stream";
  EXPECT_TRUE(pool->try_allocate(page, stream).has_value()) << "all in one piece";
}

TEST_P(Pools, AStreamThatEndsBusyIsWaitedFor) {
  const auto pool = make(tight(ReusePolicy::passed_only));
  Gate gate;
  {
    const Stream ending(device());
    Buffer buffer = pool->allocate(page, ending);
    gate.hold(ending);
    buffer.fill(std::uint8_t{1}, ending);
  }
  EXPECT_FALSE(pool->try_allocate(page, stream).has_value());
  gate.open();
  pool->trim(0);
  EXPECT_TRUE(pool->try_allocate(page, stream).has_value());
}

TEST_P(Pools, TrimKeepsWhatItIsTold) {
  const auto pool = make();
  std::vector<Buffer> buffers;
  for (int i = 0; i < 4; ++i) buffers.push_back(pool->allocate(page, stream));
  EXPECT_EQ(pool->stats().reserved, 4 * page);
  EXPECT_EQ(pool->trim(0), 0U) << "all of it is used";
  buffers.clear();
  EXPECT_EQ(pool->trim(2 * page), 2 * page);
  EXPECT_EQ(pool->stats().reserved, 2 * page);
  EXPECT_EQ(pool->trim(0), 2 * page);
  EXPECT_EQ(resource->stats().reserved, 0U);
  EXPECT_EQ(pool->stats().peak_reserved, 4 * page);
}

TEST_P(Pools, TrimKeepsEverythingWhenItIsTold) {
  const auto pool = make();
  const Buffer live = pool->allocate(page, stream);
  (void)pool->allocate(page, stream);
  EXPECT_EQ(pool->trim(std::numeric_limits<std::size_t>::max()), 0U);
  EXPECT_EQ(pool->stats().reserved, 2 * page);
}

TEST_P(Pools, ALargerRequestGetsItsOwnSegmentAndWhatWasTooSmallGoesBack) {
  const auto pool = make();
  (void)pool->allocate(1000, stream);
  stream.synchronize();
  Buffer large = pool->allocate(5 * page, stream);
  EXPECT_EQ(pool->stats().reserved, 5 * page);
  EXPECT_EQ(pool->pool_stats().given_back, paged() ? 0U : 1U) << "a page stays, and gets neighbours";
  write(large, pattern(5 * page, 1), stream);
  EXPECT_BYTES(read(large, stream), pattern(5 * page, 1));
}

TEST_P(Pools, InitialBytesAreTakenAtOnce) {
  const auto pool = make({.initial_bytes = 3 * page, .segment_bytes = page});
  EXPECT_EQ(pool->stats().reserved, 3 * page);
  EXPECT_EQ(pool->pool_stats().largest_free, 3 * page);
  EXPECT_THROW((void)make_pool(resource, {.initial_bytes = std::size_t{1} << 50}), OutOfMemory);
}

TEST_P(Pools, InitialBytesServeRequestsOfEverySize) {
  const auto pool = make({.initial_bytes = 16 * page, .segment_bytes = page});
  std::vector<Buffer> buffers;
  for (const std::size_t bytes : {std::size_t{1000}, page / 2, 3 * page, 7 * page}) {
    buffers.push_back(pool->allocate(bytes, stream));
    write(buffers.back(), pattern(bytes, static_cast<unsigned>(buffers.size())), stream);
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_BYTES(read(buffers[i], stream), pattern(buffers[i].size(), static_cast<unsigned>(i + 1)));
  }
  buffers.clear();
  stream.synchronize();
  buffers.push_back(pool->allocate(12 * page, stream));
  EXPECT_EQ(pool->stats().reserved, 16 * page);
  EXPECT_EQ(pool->stats().peak_reserved, 16 * page);
}

TEST_P(Pools, RequestsBeyondAllAddressesAreRefused) {
  const auto pool = make({.initial_bytes = 16 * page, .segment_bytes = page});
  Buffer large = pool->allocate(3 * page, stream);
  for (const int exponent : {40, 48, 56, 62}) {
    EXPECT_FALSE(pool->try_allocate(std::size_t{1} << exponent, stream).has_value()) << exponent;
  }
  EXPECT_EQ(pool->stats().reserved, 16 * page);
}

TEST_P(Pools, OptionsThatNoPoolCanHaveAreRefused) {
  EXPECT_ERROR((void)make_pool(nullptr), Errc::invalid_argument, "upstream");
  EXPECT_ERROR((void)make_pool(resource, {.segment_bytes = std::size_t{1} << 40}), Errc::invalid_argument,
               "segments of 1099511627776 bytes");
  for (const double growth : {-0.1, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_ERROR((void)make_pool(resource, {.growth = growth}), Errc::invalid_argument, "growth by");
  }
  for (const std::size_t alignment : {std::size_t{0}, std::size_t{768}, std::size_t{4} << 20}) {
    EXPECT_ERROR((void)make_pool(resource, {.alignment = alignment}), Errc::invalid_argument,
                 std::to_string(alignment));
  }
}

// New, from the stream's cache, and out of what lies beside others.
TEST_P(Pools, EveryBufferHasTheAlignmentOfThePool) {
  for (std::size_t alignment = 512; alignment <= info().alignment && alignment <= 2U << 20U; alignment *= 8) {
    const auto pool = make({.segment_bytes = page, .alignment = alignment});
    std::vector<Buffer> live;
    for (int round = 0; round < 3; ++round) {
      for (std::size_t bytes = 1; bytes < 3 * page; bytes = 3 * bytes + 100) {
        live.push_back(pool->allocate(bytes, stream));
        ASSERT_EQ(place_of(live.back()) % alignment, 0U) << bytes << " bytes, " << alignment;
      }
      for (std::size_t i = static_cast<std::size_t>(round) % 2; i < live.size(); i += 2) live[i].close();
    }
    EXPECT_GT(pool->pool_stats().reuses, 0U);
    EXPECT_EQ(place_of(pool->allocate(1, stream, 4096)) % 4096, 0U);
    const auto tight = make({.limit = page, .segment_bytes = page, .alignment = alignment});
    EXPECT_EQ(tight->allocate(page, stream, alignment).size(), page) << "all memory has it: nothing is added";
  }
}

TEST_P(Pools, ThePoolEndsAfterItsLastBufferOnAnyThread) {
  const std::weak_ptr<MemoryResource> upstream = resource;
  auto pool = make();
  resource.reset();
  std::vector<Buffer> buffers;
  for (int i = 0; i < 50; ++i) buffers.push_back(pool->allocate(1000, i % 2 ? stream : other));
  pool.reset();
  EXPECT_EQ(buffers.front().memory_resource()->upstream(), upstream.lock());
  std::vector<Thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&buffers, i] {
      for (std::size_t k = static_cast<std::size_t>(i); k < buffers.size(); k += 2) buffers[k].close();
    });
  }
  for (Thread& thread : threads) thread.join();
  GetParam().plain().make()->trim(0);
  while (!upstream.expired()) std::this_thread::yield();  // a worker may hold it a moment longer
}

TEST_P(Pools, EightThreadsGrowUnderOneLimit) {
  const auto pool = make({.limit = 8 * page, .segment_bytes = page});
  std::atomic<std::size_t> failures{0};
  std::vector<Thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const Stream own(device());
      for (std::uint32_t i = 0; i < 60; ++i) {
        auto buffer = pool->try_allocate((1 + (i * 7 + static_cast<std::uint32_t>(t)) % 9) * (page / 8), own);
        if (!buffer) {
          ++failures;
          continue;
        }
        buffer->fill(static_cast<std::uint8_t>(t), 0, 64, own);
        EXPECT_LE(pool->stats().reserved, 8 * page);
      }
      own.synchronize();
    });
  }
  for (Thread& thread : threads) thread.join();
  EXPECT_EQ(pool->stats().in_use, 0U);
  pool->trim(0);
  EXPECT_EQ(pool->stats().reserved, 0U);
}

TEST_P(Pools, AnAllocationWaitsBeforeItFails) {
  auto options = tight(ReusePolicy::passed_only);
  options.patience = std::chrono::hours{1};
  const auto pool = make(options);
  Gate gate;
  gate.hold(stream);
  Buffer first = pool->allocate(page, stream);
  first.fill(std::uint8_t{1}, stream);
  first.close();
  Thread opener([&] { gate.open(); });
  Buffer second = pool->allocate(page, other);
  EXPECT_EQ(pool->pool_stats().waits, 0U);
  opener.join();
}

TEST_P(Pools, ImpatientOnesFailAtOnce) {
  auto options = tight(ReusePolicy::passed_only);
  options.patience = std::chrono::milliseconds{1};
  const auto pool = make(options);
  Gate gate;
  gate.hold(stream);
  Buffer first = pool->allocate(page, stream);
  first.fill(std::uint8_t{1}, stream);
  first.close();
  EXPECT_FALSE(pool->try_allocate(page, other).has_value());
  gate.open();
}

TEST_P(Pools, AnIdlePoolHoldsNothingAboveItsThreshold) {
  const auto pool = make({.segment_bytes = page, .release_threshold = 0});
  const auto await_reserved = [&](std::size_t bytes) {  // the library gives back by itself
    while (pool->stats().reserved > bytes) std::this_thread::yield();
    while (resource->stats().in_use > bytes)
      std::this_thread::yield();  // what the pool does not count is on its way there
    EXPECT_EQ(pool->stats().reserved, bytes);
    EXPECT_EQ(resource->stats().in_use, bytes);
  };
  {
    Gate gate;
    gate.hold(stream);
    Buffer buffer = pool->allocate(page, stream);
    buffer.fill(std::uint8_t{1}, stream);
    Buffer beside = pool->allocate(page, other);
    buffer.close();
    EXPECT_GE(pool->stats().reserved, 2 * page) << "one is in use, the other still written";
    gate.open();
  }
  await_reserved(0);

  pool->set_release_threshold(2 * page);
  {
    std::vector<Buffer> four;
    for (int i = 0; i < 4; ++i) four.push_back(pool->allocate(page, stream));
  }
  await_reserved(2 * page);
  pool->set_release_threshold(std::numeric_limits<std::size_t>::max());
  (void)pool->allocate(4 * page, stream);
  EXPECT_GE(pool->stats().reserved, 4 * page);
  pool->set_release_threshold(page);
  while (pool->stats().reserved > page) std::this_thread::yield();
}

TEST_P(Pools, WhatIsClosedWhileOtherMemoryWaitsToGoBackFollows) {
  const auto pool = make({.segment_bytes = page, .release_threshold = 0});
  Gate first, second;
  first.hold(stream);
  second.hold(other);
  Buffer goes = pool->allocate(page, stream), follows = pool->allocate(page, other);
  goes.fill(std::uint8_t{1}, stream);
  follows.fill(std::uint8_t{2}, other);
  goes.close();
  follows.close();
  first.open();
  while (pool->stats().reserved > page) std::this_thread::yield();  // the watchdog ends it
  second.open();
  while (pool->stats().reserved != 0) std::this_thread::yield();
}

TEST_P(Pools, WhatIsFreeGoesBackWhileOtherMemoryWaits) {
  const auto pool = make({.segment_bytes = page, .release_threshold = 0});
  Gate gate;
  gate.hold(stream);
  Buffer waits = pool->allocate(page, stream), goes = pool->allocate(page, other);
  waits.fill(std::uint8_t{1}, stream);
  waits.close();
  other.synchronize();  // upstream may have enqueued the allocation
  goes.close();
  EXPECT_EQ(pool->stats().reserved, page);
  gate.open();
  while (pool->stats().reserved != 0) std::this_thread::yield();  // the watchdog ends it
}

TEST_P(Pools, AThresholdCountsWhatIsInUse) {
  const auto pool = make({.segment_bytes = page, .release_threshold = 2 * page});
  const Buffer live = pool->allocate(page, other);
  {
    std::vector<Buffer> three;
    for (int i = 0; i < 3; ++i) three.push_back(pool->allocate(page, stream));
  }
  while (pool->stats().reserved > 2 * page) std::this_thread::yield();  // the watchdog ends it
  EXPECT_EQ(pool->stats().reserved, 2 * page) << "one in use, one to keep";
}

// While others have buffers, what one stream gave back may be needed again at once.
TEST_P(Pools, AThresholdBelowWhatIsLiveDoesNotMakeEachAllocationGrow) {
  const auto pool = make({.segment_bytes = page, .release_threshold = page});
  const Buffer live = pool->allocate(4 * page, other);
  constexpr int pairs = 2000;
  for (int i = 0; i < pairs; ++i) (void)pool->allocate(page, stream);
  EXPECT_LT(pool->pool_stats().grown, 30U);
}

TEST_P(Pools, DumpsWhatItHas) {
  const auto pool = make();
  Buffer a = pool->allocate(1000, stream);
  Buffer b = pool->allocate(page, other);
  (void)pool->allocate(5000, stream);
  const std::string dump = pool->dump();
  const auto count = [&dump](std::string_view text) {
    std::size_t found = 0;
    for (auto at = dump.find(text); at != std::string::npos; at = dump.find(text, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("\"state\":\"live\""), 2U) << dump;
  EXPECT_EQ(count("\"state\":\"cached\""), 1U) << dump;
  EXPECT_EQ(count("\"live_buffers\":1,"), 2U) << dump;
  EXPECT_EQ(count("{\"stream\":" + std::to_string(other.id()) + ","), 1U) << dump;
  EXPECT_EQ(count("{"), count("}"));
  EXPECT_EQ(count("["), count("]"));
  EXPECT_EQ(count("\"") % 2, 0U);
}

TEST_P(Pools, OverAPool) {
  const auto lower = make();
  const auto upper = make_pool(lower, {.segment_bytes = page / 4});
  Buffer buffer = upper->allocate(70000, stream);
  write(buffer, pattern(70000, 1), stream);
  EXPECT_BYTES(read(buffer, stream), pattern(70000, 1));
  buffer.close();
  upper->trim(0);
  EXPECT_EQ(lower->stats().reserved, 0U);
}

}  // namespace
}  // namespace weir::test
