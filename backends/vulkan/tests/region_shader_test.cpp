// SPDX-License-Identifier: Apache-2.0
// What the shader is told names the rows of a region, each once, in whole units that are aligned on both sides.
#include "vulkan/region_shader.hpp"

#include <gtest/gtest.h>

#include <map>

#include "copy/region.hpp"
#include "random_layouts.hpp"

namespace weir::test {
namespace {

using vulkan::RowDispatches;
using vulkan::RowNumbers;
using Pairs = std::map<std::uint64_t, std::uint64_t>;  // the byte that each written byte comes from

constexpr std::uint64_t target = std::uint64_t{1} << 40, source = std::uint64_t{1} << 41;

Pairs bytes_of(const detail::PlacedRegion& placed) {
  Pairs pairs;
  spi::for_each_row(placed.region.dimensions, [&](std::ptrdiff_t dst, std::ptrdiff_t src) {
    for (std::size_t i = 0; i < placed.region.row_bytes; ++i)
      pairs[target + placed.dst + static_cast<std::uint64_t>(dst) + i] =
          source + placed.src + static_cast<std::uint64_t>(src) + i;
  });
  return pairs;
}

// What the shader does, unit by unit.
void run(const RowNumbers& the, std::uint32_t bytes, Pairs& pairs) {
  for (std::uint32_t i = 0; i < the.units; ++i) {
    const std::uint32_t rows = i / the.row, unit = i % the.row;
    const std::uint32_t lines = rows / the.inner, a = rows % the.inner;
    const std::uint32_t c = lines / the.middle, b = lines % the.middle;
    const auto to =
        std::int64_t{a} * the.dst_inner + std::int64_t{b} * the.dst_middle + std::int64_t{c} * the.dst_outer;
    const auto from =
        std::int64_t{a} * the.src_inner + std::int64_t{b} * the.src_middle + std::int64_t{c} * the.src_outer;
    EXPECT_GE(the.src_first + from, 0);
    const auto at = the.dst + static_cast<std::uint64_t>(to + unit) * bytes;
    const auto of = the.src + static_cast<std::uint64_t>(the.src_first + from + unit) * bytes;
    EXPECT_EQ(at % bytes, 0U);
    EXPECT_EQ(of % bytes, 0U);
    for (std::uint32_t byte = 0; byte < bytes; ++byte)
      EXPECT_TRUE(pairs.emplace(at + byte, of + byte).second) << "a byte is written twice";
  }
}

RowDispatches dispatches_of(const detail::PlacedRegion& placed) {
  return vulkan::row_dispatches(target + placed.dst, source + placed.src, placed.region);
}

TEST(RowDispatches, NameTheRowsOfAllSorts) {
  RandomLayouts random(13);
  int made = 0, several = 0;
  for (int round = 0; round < 4000; ++round) {
    const DType type = random.dtype();
    const auto shape = random.shape(5, 200);
    Layout dst = random.layout(type, shape, false), src = random.layout(type, shape, true);
    if (round % 2 == 0) {
      dst.byte_offset &= ~std::size_t{3};
      src.byte_offset &= ~std::size_t{3};
    }
    const auto placed =
        detail::region_between(type.bytes(), shape, dst.byte_offset, dst.strides, src.byte_offset, src.strides);
    const RowDispatches all = dispatches_of(placed);
    if (all.all.empty()) continue;
    ++made;
    if (all.all.size() > 1) ++several;
    Pairs pairs;
    for (const RowNumbers& one : all.all) run(one, all.unit, pairs);
    ASSERT_EQ(pairs, bytes_of(placed)) << "round " << round;
    if (HasFailure()) return;
  }
  EXPECT_GT(made, 800);
  EXPECT_GT(several, 10);
}

std::uint32_t unit_of(const detail::PlacedRegion& placed) {
  const RowDispatches made = dispatches_of(placed);
  return made.all.empty() ? 0 : made.unit;
}

TEST(RowDispatches, HaveTheLargestUnit) {
  EXPECT_EQ(unit_of({0, 0, {64, {{100, 128, 64}}}}), 16U);
  EXPECT_EQ(unit_of({8, 0, {64, {{100, 128, 64}}}}), 8U);
  EXPECT_EQ(unit_of({0, 4, {64, {{100, 128, 64}}}}), 4U);
  EXPECT_EQ(unit_of({0, 0, {64, {{100, 128, 72}}}}), 8U);
  EXPECT_EQ(unit_of({0, 0, {8, {{100, 128, -64}}}}), 8U);
  EXPECT_EQ(unit_of({0, 0, {8, {{100, 128, 0}}}}), 8U);
  EXPECT_EQ(unit_of({0, 2, {64, {{100, 128, 64}}}}), 0U) << "half words";
  EXPECT_EQ(unit_of({0, 0, {6, {{100, 128, 64}}}}), 0U);
  EXPECT_EQ(unit_of({0, 0, {8, {{100, 128, 63}}}}), 0U);
}

TEST(RowDispatches, AreNoneWhereTheShaderCannotCount) {
  constexpr std::ptrdiff_t gib = std::ptrdiff_t{1} << 30;
  EXPECT_EQ(unit_of({0, 0, {4, {{2, 7 * gib, 4}}}}), 4U);
  EXPECT_EQ(unit_of({0, 0, {4, {{2, 8 * gib, 4}}}}), 0U) << "the target's rows are too far apart";
  EXPECT_EQ(unit_of({0, 0, {4, {{2, 4, -8 * gib}}}}), 0U) << "the source's are";
  EXPECT_EQ(unit_of({0, 0, {16, {{2, 16, 31 * gib}}}}), 16U) << "in larger units they are not";
  EXPECT_EQ(unit_of({0, 0, {static_cast<std::size_t>(9 * gib), {{2, 9 * gib + 4, 9 * gib}}}}), 0U) << "too many units";
}

TEST(RowDispatches, HaveAsManyGroupsAsEveryDriverTakes) {
  RowNumbers one{};
  one.units = 1;
  EXPECT_EQ(one.groups(), 1U);
  one.units = 257;
  EXPECT_EQ(one.groups(), 2U);
  one.units = RowNumbers::most_units;
  EXPECT_EQ(one.groups(), 65'535U);
}

}  // namespace
}  // namespace weir::test
