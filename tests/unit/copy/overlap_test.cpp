// SPDX-License-Identifier: Apache-2.0
// The exact answer, beside one that looks at every byte.

#include <gtest/gtest.h>

#include <set>

#include "copy/overlap.hpp"
#include "random_layouts.hpp"

namespace weir::test {
namespace {

using detail::Overlap;

Overlap of_sides(const Layout& dst, const Layout& src, std::int64_t distance = 0) {
  const auto placed =
      detail::region_between(dst.dtype.bytes(), dst.shape, dst.byte_offset, dst.strides, src.byte_offset, src.strides);
  return detail::overlap_of_sides(placed, distance);
}

Overlap of_elements(const Layout& layout) {
  return detail::overlap_of_elements(layout.dtype.bytes(), layout.shape, layout.strides);
}

std::set<std::size_t> bytes_of(const Layout& layout) {
  std::set<std::size_t> all;
  for (const std::size_t at : places(layout))
    for (std::size_t i = 0; i < layout.dtype.bytes(); ++i) all.insert(at + i);
  return all;
}

TEST(OverlapOfSides, IsThatOfTheirBytes) {
  RandomLayouts random(3);
  int found = 0;
  for (int round = 0; round < 4000; ++round) {
    const DType type = random.dtype();
    const auto shape = random.shape(4, 60);
    const Layout dst = random.layout(type, shape, false), src = random.layout(type, shape, true);
    const auto distance = random.between(-60, 60);
    const auto written = bytes_of(dst);
    const bool expected = std::ranges::any_of(
        bytes_of(src), [&](std::size_t byte) { return written.contains(byte + static_cast<std::size_t>(distance)); });
    ASSERT_EQ(of_sides(dst, src, distance), expected ? Overlap::yes : Overlap::no) << round;
    found += expected ? 0 : 1;
  }
  EXPECT_GT(found, 500);
}

TEST(OverlapOfElements, IsThatOfTheirBytes) {
  RandomLayouts random(4);
  int found = 0;
  for (int round = 0; round < 4000; ++round) {
    Layout layout{random.dtype(), random.shape(4, 40), {}, 1000};
    for (std::size_t i = 0; i < layout.shape.size(); ++i) layout.strides.push_back(random.between(-12, 12));
    const bool expected = bytes_of(layout).size() != static_cast<std::size_t>(layout.elements()) * layout.dtype.bytes();
    ASSERT_EQ(of_elements(layout), expected ? Overlap::yes : Overlap::no) << round;
    found += expected ? 0 : 1;
  }
  EXPECT_GT(found, 500);
}

// Pictures and matrices are interleaved so; looking at each pair of rows would take for ever.
TEST(OverlapOfSides, IsFoundOutForLargeArrays) {
  const Layout all = Layout::compact(f32, {1 << 14, 1 << 14});
  const Layout even = all.slice(1, {0, {}, 2}), odd = all.slice(1, {1, {}, 2});
  EXPECT_EQ(of_sides(even, odd), Overlap::no);
  EXPECT_EQ(of_sides(even, even), Overlap::yes);
  EXPECT_EQ(of_sides(even.slice(1, {{}, -1}), all.slice(1, {2, {}, 2})), Overlap::yes);
  EXPECT_EQ(of_sides(all.slice(1, {0, 8192}), all.slice(1, {8192, {}})), Overlap::no);
  EXPECT_EQ(of_sides(all.slice(1, {0, 8192}), all.slice(1, {8191, -1})), Overlap::yes);
  EXPECT_EQ(of_sides(all, all.transpose()), Overlap::yes);
  EXPECT_EQ(of_elements(all.transpose()), Overlap::no);
}

// Strides without a common measure: the answer would take too long, and is not guessed.
TEST(OverlapOfElements, MayBeUnknown) {
  Layout layout{u8, {}, {}, 0};
  RandomLayouts random(5);
  for (int i = 0; i < 24; ++i) {
    layout.shape.push_back(2);
    layout.strides.push_back(random.between(std::int64_t{1} << 39, std::int64_t{1} << 40));
  }
  EXPECT_EQ(of_elements(layout), Overlap::unknown);
}

}  // namespace
}  // namespace weir::test
