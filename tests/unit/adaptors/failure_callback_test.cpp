// SPDX-License-Identifier: Apache-2.0
// Spilling: a function that helps, one that never does, one that allocates itself, one that throws.

#include "weir/adaptors/failure_callback.hpp"

#include <gtest/gtest.h>

#include <latch>
#include <stdexcept>
#include <string>

#include "expect.hpp"
#include "scripted.hpp"
#include "threads.hpp"
#include "weir/adaptors/limiting.hpp"
#include "weir/pool.hpp"

namespace weir::test {
namespace {

constexpr std::size_t kib = 1024;

class FailureCallbacks : public testing::Test {
 protected:
  /// 64 KiB, in a pool or directly.
  std::shared_ptr<Scripted> bottom = std::make_shared<Scripted>();
  LimitingPtr limited = make_limiting(bottom, 64 * kib);
  PoolPtr pool = make_pool(limited, {.segment_bytes = 16 * kib});
  Stream stream{host_device()};
};

TEST_F(FailureCallbacks, SpillsAndSucceeds) {
  std::vector<Buffer> cache;
  std::vector<std::size_t> attempts;
  const auto spilling = make_failure_callback(pool, [&](const AllocationFailure& failure) {
    EXPECT_EQ(failure.bytes, 40 * kib);
    EXPECT_EQ(failure.alignment, 512U);
    EXPECT_EQ(failure.stream, stream);
    EXPECT_EQ(failure.shortage.requested, 40 * kib);
    EXPECT_EQ(failure.shortage.resource, pool->name());
    EXPECT_EQ(failure.shortage.device.rfind("host:0", 0), 0U);
    EXPECT_FALSE(failure.shortage.limit == 0 && failure.shortage.reserved == 0) << "what upstream said";
    attempts.push_back(failure.attempt);
    if (cache.empty()) return false;
    cache.pop_back();
    return true;
  });
  for (int i = 0; i < 4; ++i) cache.push_back(spilling->allocate(16 * kib, stream));
  const Buffer large = spilling->allocate(40 * kib, stream, 512);
  EXPECT_EQ(large.size(), 40 * kib);
  EXPECT_EQ(attempts, (std::vector<std::size_t>{1, 2, 3}));
  EXPECT_EQ(spilling->name(), "failure_callback(" + pool->name() + ")");
  EXPECT_EQ(spilling->stats().live_buffers, 2U);
}

TEST_F(FailureCallbacks, OneThatNeverHelpsIsBounded) {
  std::size_t calls = 0;
  const auto hopeless = make_failure_callback(
      pool, [&](const AllocationFailure& failure) { return failure.attempt == ++calls; }, {.max_attempts = 5});
  EXPECT_OUT_OF_MEMORY(hopeless->allocate(65 * kib, stream), hopeless->name());
  EXPECT_EQ(calls, 5U);
  calls = 0;
  EXPECT_FALSE(hopeless->try_allocate(65 * kib, stream).has_value());
  EXPECT_EQ(calls, 5U);
  EXPECT_EQ(hopeless->stats().allocations, 0U);
  EXPECT_EQ(limited->stats().in_use, 0U);
}

TEST_F(FailureCallbacks, OneThatGivesUpIsAskedOnce) {
  std::size_t calls = 0;
  const auto resigned = make_failure_callback(pool, [&](const auto&) { return ++calls == 0; });
  EXPECT_FALSE(resigned->try_allocate(65 * kib, stream).has_value());
  EXPECT_EQ(calls, 1U);
}

TEST_F(FailureCallbacks, ItMayAllocateFromTheSameResource) {
  std::vector<Buffer> cache;
  std::size_t calls = 0;
  ResourcePtr own;
  own = make_failure_callback(pool, [&](const AllocationFailure&) {
    ++calls;
    EXPECT_FALSE(own->try_allocate(65 * kib, stream).has_value()) << "refused, without another call";
    EXPECT_OUT_OF_MEMORY(own->allocate(65 * kib, stream), own->name());
    cache.clear();
    const Buffer small = own->allocate(kib, stream);  // what it needs for spilling
    const Buffer direct = pool->allocate(kib, stream);
    return true;
  });
  for (int i = 0; i < 3; ++i) cache.push_back(own->allocate(16 * kib, stream));
  EXPECT_EQ(own->allocate(48 * kib, stream).size(), 48 * kib);
  EXPECT_EQ(calls, 1U);
  EXPECT_FALSE(own->try_allocate(65 * kib, stream).has_value());
  EXPECT_EQ(calls, 1U + 16U) << "the default bound; and a call that is over leaves nothing behind";
}

TEST_F(FailureCallbacks, OthersAreCalledFromIt) {
  std::size_t inner_calls = 0, outer_calls = 0;
  const auto inner = make_failure_callback(pool, [&](const auto&) { return ++inner_calls == 0; });
  const auto outer = make_failure_callback(pool, [&](const auto&) {
    EXPECT_FALSE(inner->try_allocate(65 * kib, stream).has_value());
    return ++outer_calls == 0;
  });
  EXPECT_FALSE(outer->try_allocate(65 * kib, stream).has_value());
  EXPECT_EQ(inner_calls, 1U);
  EXPECT_EQ(outer_calls, 1U);
}

TEST_F(FailureCallbacks, WhatItThrowsTheAllocationThrows) {
  bool helps = false;
  const auto throwing = make_failure_callback(pool, [&](const AllocationFailure&) -> bool {
    if (!helps) throw std::runtime_error("disk full");
    return false;
  });
  for (int i = 0; i < 2; ++i) {  // also the second time: it is not taken for a call within the first
    try {
      (void)throwing->allocate(65 * kib, stream);
      ADD_FAILURE() << "the function threw";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "disk full");
    }
    EXPECT_THROW((void)throwing->try_allocate(65 * kib, stream), std::runtime_error);
  }
  helps = true;
  EXPECT_FALSE(throwing->try_allocate(65 * kib, stream).has_value());
  EXPECT_EQ(throwing->stats().live_buffers, 0U);
  EXPECT_EQ(limited->stats().in_use, 0U);
  EXPECT_TRUE(throwing->try_allocate(64 * kib, stream).has_value());
}

TEST_F(FailureCallbacks, WhatUpstreamThrowsIsNotItsBusiness) {
  bool called = false;
  const auto own = make_failure_callback(bottom, [&](const auto&) { return called = true; });
  bottom->follow([](const auto&) -> bool { throw Error(Errc::device_lost, "gone"); });
  EXPECT_ERROR(own->allocate(10, stream), Errc::device_lost, "gone");
  EXPECT_FALSE(called);
}

TEST_F(FailureCallbacks, UnderAPoolThatGrowsItMayUseThatPool) {
  std::vector<Buffer> cache;
  std::size_t calls = 0;
  PoolPtr upper;
  const auto lower = make_failure_callback(limited, [&](const AllocationFailure&) {
    ++calls;
    cache.clear();
    (void)upper->try_allocate(kib, stream);       // from what is free
    (void)upper->try_allocate(60 * kib, stream);  // which would need growth, in the middle of growing
    upper->trim(0);
    return calls < 3;
  });
  upper = make_pool(lower, {.segment_bytes = 16 * kib});
  for (int i = 0; i < 4; ++i) cache.push_back(upper->allocate(16 * kib, stream));
  EXPECT_TRUE(upper->try_allocate(40 * kib, stream).has_value());
  EXPECT_GE(calls, 1U);
}

TEST_F(FailureCallbacks, EightThreadsSpillAtOnce) {
  std::mutex mutex;
  std::vector<Buffer> cache;
  std::atomic<std::size_t> calls{0};
  const auto own = make_failure_callback(limited,
                                         [&](const AllocationFailure&) {
                                           ++calls;
                                           const std::scoped_lock lock(mutex);
                                           cache.clear();
                                           return true;
                                         },
                                         {.max_attempts = 1'000'000});  // others may take what one has freed
  std::latch start(8);
  std::vector<Thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      const Stream own_stream(host_device());
      start.arrive_and_wait();
      for (int i = 0; i < 200; ++i) {
        Buffer buffer = own->allocate(7 * kib, own_stream);
        const std::scoped_lock lock(mutex);
        cache.push_back(std::move(buffer));
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  EXPECT_EQ(own->stats().allocations, 1600U);
  EXPECT_GE(calls, 1600U / 9U - 1U);
  EXPECT_LE(limited->stats().peak_in_use, 64 * kib);  // what lies over it counts a buffer out after it has gone back
}

TEST_F(FailureCallbacks, ArgumentsAreChecked) {
  const FailureCallback never = [](const auto&) { return false; };
  EXPECT_ERROR(make_failure_callback(nullptr, never), Errc::invalid_argument, "upstream");
  EXPECT_ERROR(make_failure_callback(pool, nullptr), Errc::invalid_argument, "function");
  EXPECT_ERROR(make_failure_callback(pool, never, {.max_attempts = 0}), Errc::invalid_argument, "max_attempts");
}

}  // namespace
}  // namespace weir::test
