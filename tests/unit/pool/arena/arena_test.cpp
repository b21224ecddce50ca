// SPDX-License-Identifier: Apache-2.0
// Random programs over the free ranges of a pool, against a plain list of intervals.
#include "pool/arena/arena.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "checked_arena.hpp"
#include "pool/pool_resource.hpp"
#include "weir/buffer.hpp"
#include "weir/host.hpp"

namespace weir::pool {
namespace {

using Search = RangeIndex::Search;

class RandomArena : public testing::TestWithParam<CheckedArena::Over> {};

TEST_P(RandomArena, AgreesWithIntervals) {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&](std::uint64_t end) { return random() % end; };
    CheckedArena arena(GetParam());
    int step = 0;
    try {
      for (; step < 500; ++step) arena.step(below);
      arena.end();
    } catch (const Disagreement& why) {
      FAIL() << "step " << step << ": " << why.what();
    }
  }
}

std::string over(const testing::TestParamInfo<CheckedArena::Over>& info) {
  return info.param == CheckedArena::Over::segments ? "segments" : "addresses";
}
INSTANTIATE_TEST_SUITE_P(Over, RandomArena,
                         testing::Values(CheckedArena::Over::segments, CheckedArena::Over::addresses), over);

class ArenaTest : public testing::Test {
 protected:
  static constexpr std::size_t region_bytes = 64 * granule;

  void SetUp() override {
    shard.pending = std::make_unique<PendingRanges>();
    for (int i = 0; i < 3; ++i) {
      kept.push_back(resource->allocate(region_bytes, home));
      arena.add(*resource, *kept.back().block(), false, nullptr, 0);
    }
  }

  ResourcePtr resource = host::make_pageable_resource();
  Stream home{host_device()};
  Stream stream{host_device()};
  std::vector<Buffer> kept;
  Arena arena;
  const PoolPtr pool = make_pool(resource);
  Shard shard{static_cast<PoolResource&>(*pool), stream.state()};
};

TEST_F(ArenaTest, MergedRangesWaitForTheLaterUse) {
  Range* const a = arena.cut(arena.everyones, 4, granule, Search::quick, false);
  Range* const b = arena.cut(arena.everyones, 4, granule, Search::quick, false);
  ASSERT_EQ(a->after, b);
  for (Range* range : {a, b}) range->shard = &shard;
  a->closed_at(7);
  b->closed_at(5);
  arena.make_free(*a);
  arena.make_free(*b);
  Range* const whole = arena.cut(*shard.pending, 8, granule, Search::quick, false);
  ASSERT_NE(whole, nullptr);
  EXPECT_EQ(whole->closed_at(), 7U);
  whole->shard = nullptr;
  arena.make_free(*whole);
}

TEST_F(ArenaTest, ARegionGoesAsAWhole) {
  Region& region = arena.regions.front();
  const auto before = arena.bytes;
  ASSERT_TRUE(region.unused());
  spi::Block* const block = region.block;
  EXPECT_EQ(&arena.remove(region), block);
  EXPECT_EQ(arena.bytes, before - region_bytes);
  EXPECT_EQ(arena.regions.size(), 2U);
}

}  // namespace
}  // namespace weir::pool
