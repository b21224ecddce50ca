// SPDX-License-Identifier: Apache-2.0
// Regions name the same bytes as the elements that they are made of, whatever is done with them, in as few dimensions
// as there can be.

#include <gtest/gtest.h>

#include <bit>
#include <map>

#include "copy/region.hpp"
#include "random_layouts.hpp"

namespace weir::test {
namespace {

using detail::PlacedRegion;
using spi::Region;
using spi::RegionDimension;
using Pairs = std::map<std::size_t, std::size_t>;  // the byte that each written byte comes from

void add_bytes(Pairs& pairs, const PlacedRegion& placed) {
  spi::for_each_row(placed.region.dimensions, [&](std::ptrdiff_t dst, std::ptrdiff_t src) {
    for (std::size_t i = 0; i < placed.region.row_bytes; ++i) {
      const auto [at, fresh] =
          pairs.emplace(placed.dst + static_cast<std::size_t>(dst) + i, placed.src + static_cast<std::size_t>(src) + i);
      EXPECT_TRUE(fresh) << "byte " << at->first << " is written twice";
    }
  });
}

Pairs bytes_of(const PlacedRegion& placed) {
  Pairs pairs;
  add_bytes(pairs, placed);
  return pairs;
}

Pairs bytes_between(const Layout& dst, const Layout& src) {
  Pairs pairs;
  const auto to = places(dst), from = places(src);
  for (std::size_t i = 0; i < to.size(); ++i)
    for (std::size_t byte = 0; byte < dst.dtype.bytes(); ++byte) pairs[to[i] + byte] = from[i] + byte;
  return pairs;
}

PlacedRegion region_between(const Layout& dst, const Layout& src) {
  return detail::region_between(dst.dtype.bytes(), dst.shape, dst.byte_offset, dst.strides, src.byte_offset,
                                src.strides);
}

void check_form(const Region& region) {
  EXPECT_GT(region.row_bytes, 0U);
  for (std::size_t i = 0; i < region.dimensions.size(); ++i) {
    const RegionDimension& one = region.dimensions[i];
    EXPECT_GT(one.count, 1U);
    EXPECT_GT(one.dst_step, 0);
    EXPECT_GE(region.dimensions[i > 0 ? i - 1 : 0].dst_step, one.dst_step);
  }
}

class Regions : public testing::Test {
 protected:
  /// Call `check(dst, src, region)` with many pairs of layouts.
  template <class Check>
  static void of_all_sorts(Check check) {
    RandomLayouts random(7);
    for (int round = 0; round < 3000; ++round) {
      const DType type = random.dtype();
      const auto shape = random.shape(5, 200);
      const Layout dst = random.layout(type, shape, false), src = random.layout(type, shape, true);
      check(dst, src, region_between(dst, src), random);
      if (testing::Test::HasFailure()) return;
    }
  }
};

TEST_F(Regions, NameTheBytesOfTheElements) {
  of_all_sorts([](const Layout& dst, const Layout& src, const PlacedRegion& placed, RandomLayouts&) {
    check_form(placed.region);
    EXPECT_EQ(bytes_of(placed), bytes_between(dst, src));
    EXPECT_EQ(placed.region.bytes(), static_cast<std::size_t>(dst.elements()) * dst.dtype.bytes());
    EXPECT_EQ(placed.region.bytes(), placed.region.rows() * placed.region.row_bytes);
  });
}

TEST_F(Regions, TellTheRangesThatTheyTouch) {
  of_all_sorts([](const Layout& dst, const Layout& src, const PlacedRegion& placed, RandomLayouts&) {
    const auto written = detail::written_range(placed), read = detail::read_range(placed);
    const auto to = places(dst), from = places(src);
    EXPECT_EQ(written.begin, *std::ranges::min_element(to));
    EXPECT_EQ(written.end, *std::ranges::max_element(to) + dst.dtype.bytes());
    EXPECT_EQ(read.begin, *std::ranges::min_element(from));
    EXPECT_EQ(read.end, *std::ranges::max_element(from) + dst.dtype.bytes());
  });
}

TEST_F(Regions, AreCutIntoPieces) {
  of_all_sorts([](const Layout& dst, const Layout& src, const PlacedRegion& placed, RandomLayouts& random) {
    const auto most = static_cast<std::size_t>(random.between(1, 300));
    Pairs all;
    detail::in_pieces(placed, most, [&](const PlacedRegion& piece) {
      check_form(piece.region);
      EXPECT_LE(piece.region.bytes(), most);
      add_bytes(all, piece);
    });
    EXPECT_EQ(all, bytes_between(dst, src));
  });
}

// Both steps one after the other name the same bytes, and those in between are dense.
void check_detour(const detail::Detour& by, const Pairs& expected) {
  check_form(by.in.region);
  check_form(by.out.region);
  const Pairs in = bytes_of(by.in), out = bytes_of(by.out);
  EXPECT_EQ(in.size(), by.bytes);
  EXPECT_EQ(in.rbegin()->first, by.bytes - 1);
  Pairs both;
  for (const auto& [dst, between] : out) both[dst] = in.at(between);
  EXPECT_EQ(both, expected);
}

TEST_F(Regions, AreTheSameByWayOfDenseMemory) {
  of_all_sorts([](const Layout& dst, const Layout& src, const PlacedRegion& placed, RandomLayouts&) {
    check_detour(packed_as_source(placed), bytes_between(dst, src));
    check_detour(packed_as_destination(placed), bytes_between(dst, src));
  });
}

// Each copy reads rows that are written already, and nothing is written twice.
TEST_F(Regions, TheFirstRowIsSpreadByDoubling) {
  of_all_sorts([](const Layout& dst, const Layout& src, const PlacedRegion& placed, RandomLayouts&) {
    std::map<std::size_t, std::size_t> byte_of_row;
    for (std::size_t i = 0; i < placed.region.row_bytes; ++i) byte_of_row[placed.dst + i] = i;
    std::size_t copies = 0, most = 0;
    for (const RegionDimension& dimension : placed.region.dimensions)
      most += static_cast<std::size_t>(std::bit_width(dimension.count - 1));
    detail::spread_first_row(placed, [&](const PlacedRegion& piece) {
      check_form(piece.region);
      for (const auto& [to, from] : bytes_of(piece)) {
        ASSERT_TRUE(byte_of_row.contains(from));
        ASSERT_TRUE(byte_of_row.emplace(to, byte_of_row.at(from)).second) << "byte " << to << " is written twice";
      }
      ++copies;
    });
    EXPECT_EQ(copies, most);
    const Pairs expected = bytes_between(dst, src);
    ASSERT_EQ(byte_of_row.size(), expected.size());
    std::size_t i = 0;
    for (const auto& [at, byte] : byte_of_row) {
      ASSERT_TRUE(expected.contains(at));
      i += byte == 0;
    }
    EXPECT_EQ(i, placed.region.rows());
  });
}

TEST_F(Regions, DenseSidesStayDenseInBetween) {
  const Layout rows = Layout::compact(f32, {20, 30, 4}), turned = Layout::compact(f32, {4, 30, 20}).transpose();
  const Region nothing{9600, {}};
  EXPECT_EQ(packed_as_source(region_between(rows, turned)).in.region, nothing);
  EXPECT_EQ(packed_as_destination(region_between(rows, turned)).out.region, nothing);
  const Layout backward{f32, {2400}, {-1}, 9596};
  const auto by = packed_as_source(region_between(Layout::compact(f32, {2400}), backward));
  EXPECT_EQ(by.in.region, nothing);
  EXPECT_EQ(by.out.region, (Region{4, {{2400, 4, -4}}}));
  const Layout again{f32, {100, 24}, {0, 1}, 0};
  EXPECT_EQ(packed_as_source(region_between(Layout::compact(f32, {100, 24}), again)).bytes, 96U);
}

TEST_F(Regions, HaveNoMoreDimensionsThanNeeded) {
  const auto of = [](const Layout& dst, const Layout& src) { return region_between(dst, src).region; };
  const Layout dense = Layout::compact(f32, {6, 5, 4});
  EXPECT_EQ(of(dense, dense), (Region{480, {}}));
  EXPECT_EQ(of(dense.permute({2, 0, 1}), dense.permute({2, 0, 1})), (Region{480, {}}));
  EXPECT_EQ(of(dense.slice(0, {{}, {}, -1}), dense.slice(0, {{}, {}, -1})), (Region{480, {}}));
  const Layout padded{f32, {6, 5, 4}, {35, 7, 1}, 0};
  EXPECT_EQ(of(padded, dense), (Region{16, {{30, 28, 16}}}));
  EXPECT_EQ(of(dense, padded), (Region{16, {{30, 16, 28}}}));
  EXPECT_EQ(of(dense, dense.reshape({120}).slice(0, {{}, {}, -1}).reshape({6, 5, 4})), (Region{4, {{120, 4, -4}}}));
  EXPECT_EQ(of(Layout::compact(f32, {}), Layout::compact(f32, {})), (Region{4, {}}));
}

}  // namespace
}  // namespace weir::test
