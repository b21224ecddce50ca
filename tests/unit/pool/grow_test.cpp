// SPDX-License-Identifier: Apache-2.0
// How much a pool without pages asks upstream for.
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "weir/adaptors/failure_callback.hpp"
#include "weir/adaptors/limiting.hpp"
#include "weir/buffer.hpp"
#include "weir/callback_resource.hpp"
#include "weir/error.hpp"
#include "weir/pool.hpp"

namespace weir::pool {
namespace {

constexpr std::size_t segment = 64 << 10, half = segment / 2;

class Growth : public testing::Test {
 protected:
  /// Buffers of half a segment, as many as there is memory for, at most `most`.
  void fill(Pool& pool, std::size_t most) {
    while (buffers.size() < most) {
      auto buffer = pool.try_allocate(half, stream);
      if (!buffer) return;
      buffers.push_back(std::move(*buffer));
    }
  }

  const ResourcePtr upstream = make_resource(host_device());
  const Stream stream{host_device()};
  std::vector<Buffer> buffers;
};

TEST_F(Growth, IsInProportionToWhatThereIs) {
  const auto pool = make_pool(upstream, {.segment_bytes = segment});
  fill(*pool, 128);
  EXPECT_EQ(pool->pool_stats().grown, 64U) << "by one segment each";
  fill(*pool, 1024);
  EXPECT_LT(pool->pool_stats().grown, 64U + 100U) << "by one part in 32";
  EXPECT_LE(pool->stats().reserved, 1024 * half + 1024 * half / 32 + segment);
}

TEST_F(Growth, IsAsMuchAsOneWants) {
  const auto never = make_pool(upstream, {.segment_bytes = segment, .growth = 0});
  fill(*never, 1024);
  EXPECT_EQ(never->pool_stats().grown, 512U);
  buffers.clear();
  const auto doubling = make_pool(upstream, {.segment_bytes = segment, .growth = 1});
  fill(*doubling, 1024);
  EXPECT_EQ(doubling->pool_stats().grown, 10U) << "one segment, as much again, and so on";
}

TEST_F(Growth, OfLargeRequestsIsWhatTheyNeed) {
  const auto pool = make_pool(upstream, {.segment_bytes = segment});
  for (int i = 0; i < 100; ++i) buffers.push_back(pool->allocate(3 * half, stream));
  EXPECT_EQ(pool->stats().reserved, 300 * half);
  fill(*pool, 101);
  EXPECT_EQ(pool->stats().reserved, 300 * half + segment) << "small ones are few";
}

TEST_F(Growth, OfALargeRequestAmongManySmallOnesIsWhatItNeeds) {
  const auto pool = make_pool(upstream, {.segment_bytes = segment, .growth = 1});
  fill(*pool, 256);
  EXPECT_EQ(pool->stats().reserved, 256 * half) << "the next small one would double it";
  buffers.push_back(pool->allocate(3 * half, stream));
  EXPECT_EQ(pool->stats().reserved, 259 * half);
}

TEST_F(Growth, TakesWhatTheLimitLeaves) {
  const auto pool = make_pool(upstream, {.limit = 100 * segment + half, .segment_bytes = segment, .patience = {}});
  fill(*pool, 1000);
  EXPECT_EQ(buffers.size(), 201U);
  EXPECT_EQ(pool->stats().reserved, 100 * segment + half);
}

TEST_F(Growth, TakesWhatUpstreamHas) {
  const auto pool =
      make_pool(make_limiting(upstream, 100 * segment + half), {.segment_bytes = segment, .patience = {}});
  fill(*pool, 1000);
  EXPECT_EQ(buffers.size(), 201U);
  EXPECT_EQ(pool->stats().reserved, 100 * segment + half);
}

TEST_F(Growth, InOnePieceIsOfLessThanATebibyte) {
  constexpr std::size_t tebibyte = std::size_t{1} << 40;
  int asked = 0;
  const auto endless =
      make_callback_resource(host_device(), {.allocate = [&](std::size_t, const Stream&) -> void* {
                                               ++asked;
                                               return reinterpret_cast<void*>(tebibyte);  // nobody reads or writes it
                                             },
                                             .deallocate = [](void*, std::size_t) {}});
  EXPECT_THROW((void)make_pool(endless, {.initial_bytes = tebibyte}), OutOfMemory);
  EXPECT_EQ(asked, 0);
  const auto pool = make_pool(endless, {.initial_bytes = tebibyte - 256});
  EXPECT_EQ(pool->pool_stats().largest_free, tebibyte - 256);
  EXPECT_FALSE(pool->try_allocate(tebibyte, stream).has_value());
  EXPECT_EQ(asked, 1);
}

// While upstream refuses.
TEST_F(Growth, IsTriedAgainWhenMemoryBecomesFreeMeanwhile) {
  constexpr std::size_t all = 3 * segment;
  PoolPtr pool;
  const auto refusing = make_failure_callback(make_limiting(upstream, all), [&](const AllocationFailure&) {
    buffers.pop_back();
    (void)pool->trim(all);  // which sees that it is free, and keeps it
    return false;
  });
  pool = make_pool(refusing, {.segment_bytes = segment, .patience = {}});
  while (buffers.size() < 3) buffers.push_back(pool->allocate(segment, stream));
  EXPECT_TRUE(pool->try_allocate(2 * segment, stream).has_value());
  EXPECT_EQ(buffers.size(), 1U) << "refused once, and once more when the first was given back";
}

TEST_F(Growth, GivesBackAndGrowsAnew) {
  const auto pool = make_pool(upstream, {.segment_bytes = segment});
  for (int i = 0; i < 3; ++i) {
    fill(*pool, 1024);
    buffers.clear();
    (void)pool->trim(0);
    EXPECT_EQ(pool->stats().reserved, 0U);
    fill(*pool, 2);
    EXPECT_EQ(pool->stats().reserved, segment) << "nothing is left to grow by a part of";
    buffers.clear();
  }
}

}  // namespace
}  // namespace weir::pool
