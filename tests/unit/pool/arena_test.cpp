// SPDX-License-Identifier: Apache-2.0
// Random programs over the free ranges of a pool, against a plain list of intervals.
#include "pool/arena.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "pool/shard.hpp"
#include "weir/buffer.hpp"
#include "weir/host.hpp"

namespace weir::pool {
namespace {

using Search = RangeIndex::Search;

/// What the arena should know: for every interval of every region, whose it is.
class Model {
 public:
  struct Piece {
    std::uint64_t granules;
    enum Sort { live, everyones, of_shard } sort;
  };
  using Pieces = std::map<std::uint64_t, Piece>;  // by first granule

  void add(const Region* region, std::uint64_t granules) { regions[region] = {{0, {granules, Piece::everyones}}}; }

  /// Neighbours of one sort are one, but for buffers.
  static void merge(Pieces& pieces) {
    for (auto at = pieces.begin(); at != pieces.end();) {
      const auto next = std::next(at);
      if (next != pieces.end() && at->second.sort == next->second.sort && at->second.sort != Piece::live) {
        at->second.granules += next->second.granules;
        pieces.erase(next);
      } else {
        at = next;
      }
    }
  }
  void take(const Region* region, std::uint64_t first, std::uint64_t granules) {
    Pieces& pieces = regions.at(region);
    auto at = std::prev(pieces.upper_bound(first));
    const auto [begin, piece] = *at;
    ASSERT_NE(piece.sort, Piece::live) << "memory that is in use was handed out";
    ASSERT_LE(first + granules, begin + piece.granules) << "a range leaves its free one";
    pieces.erase(at);
    if (first > begin) pieces[begin] = {first - begin, piece.sort};
    if (first + granules < begin + piece.granules) {
      pieces[first + granules] = {begin + piece.granules - first - granules, piece.sort};
    }
    pieces[first] = {granules, Piece::live};
  }
  [[nodiscard]] std::uint64_t largest(int sort) const {
    std::uint64_t most = 0;
    for (const auto& [region, pieces] : regions) {
      for (const auto& [first, piece] : pieces) {
        if (piece.sort == sort) most = std::max(most, piece.granules);
      }
    }
    return most;
  }

  std::map<const Region*, Pieces> regions;
};

class ArenaTest : public testing::Test {
 protected:
  static constexpr std::size_t region_bytes = 64 * granule;

  void SetUp() override {
    for (int i = 0; i < 3; ++i) {
      kept.push_back(resource->allocate(region_bytes, home));
      arena.add(*resource, *kept.back().block(), nullptr, 0);
      model.add(&arena.regions.front(), region_bytes / granule);
    }
  }
  static std::uint64_t first_of(const Range& range) { return (range.offset - range.region->block->offset) / granule; }

  /// The arena's lists by address are the model's pieces, and each free one is where it belongs.
  void compare() {
    std::size_t free_count = 0, shard_count = 0, expected_free = 0, expected_shard = 0;
    arena.everyones.for_each([&](const Range& range) { free_count += range.shard == nullptr ? 1 : 1000; });
    shard.free.for_each([&](const Range& range) { shard_count += range.shard == &shard ? 1 : 1000; });
    for (const auto& [region, pieces] : model.regions) {
      const Range* range = region->first;
      for (const auto& [first, piece] : pieces) {
        ASSERT_NE(range, nullptr);
        ASSERT_EQ(first_of(*range), first);
        ASSERT_EQ(range->granules, piece.granules);
        ASSERT_EQ(range->state == Range::State::live, piece.sort == Model::Piece::live);
        ASSERT_TRUE(piece.sort != Model::Piece::of_shard || range->shard == &shard);
        expected_free += piece.sort == Model::Piece::everyones;
        expected_shard += piece.sort == Model::Piece::of_shard;
        range = range->after;
      }
      ASSERT_EQ(range, nullptr);
    }
    ASSERT_EQ(free_count, expected_free);
    ASSERT_EQ(shard_count, expected_shard);
    ASSERT_EQ(arena.everyones.largest(), model.largest(Model::Piece::everyones));
  }

  ResourcePtr resource = host::make_pageable_resource();
  Stream home{host_device()};
  Stream stream{host_device()};
  std::vector<Buffer> kept;
  Model model;
  Arena arena;
  Shard shard{nullptr, stream.state()};
};

TEST_F(ArenaTest, RandomProgramsAgreeWithIntervals) {
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&](std::uint32_t end) { return random() % end; };
    std::vector<Range*> live;
    const auto give = [&](std::size_t which, bool to_shard) {
      Range& range = *live[which];
      live[which] = live.back();
      live.pop_back();
      auto& pieces = model.regions.at(range.region);
      pieces.at(first_of(range)).sort = to_shard ? Model::Piece::of_shard : Model::Piece::everyones;
      Model::merge(pieces);
      range.shard = to_shard ? &shard : nullptr;
      range.closed_at(below(100));
      arena.put(range);
    };
    for (int step = 0; step < 400; ++step) {
      const auto what = below(8);
      if (what < 4) {
        const std::uint64_t wanted = 1 + below(24);
        const std::size_t alignment = granule << (below(4) == 0 ? below(4) : 0);
        const bool own = below(3) == 0;
        auto& index = own ? shard.free : arena.everyones;
        Range* const range = arena.cut(index, wanted, alignment, Search::thorough, false);
        const auto slack = alignment / granule - 1;
        if (!range) {
          ASSERT_LT(model.largest(own ? Model::Piece::of_shard : Model::Piece::everyones), wanted + slack);
          continue;
        }
        ASSERT_EQ(range->granules, wanted);
        ASSERT_EQ((range->region->address() + first_of(*range) * granule) % alignment, 0U);
        model.take(range->region, first_of(*range), wanted);
        live.push_back(range);
      } else if (what < 7 && !live.empty()) {
        give(below(static_cast<std::uint32_t>(live.size())), below(2) == 0);
      } else if (what == 7) {
        shard.free.for_each([&](Range& range) {
          if (below(2) == 0) return;
          auto& pieces = model.regions.at(range.region);
          pieces.at(first_of(range)).sort = Model::Piece::everyones;
          Model::merge(pieces);
          arena.clear(range);
        });
      }
      ASSERT_NO_FATAL_FAILURE(compare());
    }
    while (!live.empty()) give(0, false);
    shard.free.for_each([&](Range& range) {
      auto& pieces = model.regions.at(range.region);
      pieces.at(first_of(range)).sort = Model::Piece::everyones;
      Model::merge(pieces);
      arena.clear(range);
    });
    ASSERT_NO_FATAL_FAILURE(compare());
    for (const Region& region : arena.regions) ASSERT_TRUE(region.unused());
  }
}

TEST_F(ArenaTest, MergedRangesWaitForTheLaterUse) {
  Range* const a = arena.cut(arena.everyones, 4, granule, Search::quick, false);
  Range* const b = arena.cut(arena.everyones, 4, granule, Search::quick, false);
  ASSERT_EQ(a->after, b);
  for (Range* range : {a, b}) range->shard = &shard;
  a->closed_at(7);
  b->closed_at(5);
  arena.put(*a);
  arena.put(*b);
  Range* const whole = arena.cut(shard.free, 8, granule, Search::quick, false);
  ASSERT_NE(whole, nullptr);
  EXPECT_EQ(whole->closed_at(), 7U);
  whole->shard = nullptr;
  arena.put(*whole);
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
