// SPDX-License-Identifier: Apache-2.0
// Layouts of padded arrays, and the padded shapes that strides tell.

#include <cstdint>
#include <limits>

#include "expect.hpp"
#include "random_layouts.hpp"
#include "weir/layout.hpp"

namespace weir::test {
namespace {

constexpr std::int64_t max = std::numeric_limits<std::int64_t>::max();
using Extents = std::vector<std::int64_t>;

TEST(PaddedLayout, IsACornerOfALargerArray) {
  const Layout layout = Layout::padded(f32, {3, 5}, {6, 8}, 64);
  EXPECT_EQ(layout.shape, (Extents{3, 5}));
  EXPECT_EQ(layout.strides, (Extents{8, 1}));
  EXPECT_EQ(layout.byte_offset, 64U);
  EXPECT_EQ(layout.bytes_needed(), 64U + (2 * 8 + 5) * 4) << "up to the last element";
  EXPECT_EQ(Layout::padded(u8, {2, 3, 4}, {2, 5, 7}).strides, (Extents{35, 7, 1}));
  EXPECT_EQ(Layout::padded(u8, {}, {}).strides, Extents{});
  EXPECT_EQ(Layout::padded(u8, {0, 2}, {0, 3}).strides, (Extents{3, 1}));
  EXPECT_TRUE(Layout::padded(f64, {3, 5}, {3, 5}).is_compact());
  const Layout whole = Layout::compact(i16, {6, 7, 8}, 2);
  EXPECT_EQ(places(Layout::padded(i16, {2, 7, 3}, {6, 7, 8}, 2)), places(whole.slice(0, {0, 2}).slice(2, {0, 3})));
}

TEST(PaddedLayout, RefusesWhatDoesNotFit) {
  EXPECT_ERROR(Layout::padded(f32, {3, 5}, {3, 4}), Errc::invalid_argument,
               "Layout::padded: extent 5 of dimension 1 is larger than its padded extent 4");
  EXPECT_ERROR(Layout::padded(f32, {4, 5}, {3, 5}), Errc::invalid_argument,
               "extent 4 of dimension 0 is larger than its padded extent 3");
  EXPECT_ERROR(Layout::padded(f32, {3, 5}, {15}), Errc::invalid_argument,
               "shape (3, 5) and padded shape (15) have different numbers of dimensions");
  EXPECT_ERROR(Layout::padded(f32, {3, -1}, {3, 4}), Errc::invalid_argument, "extent -1 of dimension 1 is negative");
  EXPECT_ERROR(Layout::padded(u8, {1, 1}, {max, 2}), Errc::invalid_argument, "overflow");
  EXPECT_ERROR(Layout::padded(u16, {1}, {max}), Errc::invalid_argument, "overflow");
  EXPECT_ERROR(Layout::padded(u8, {1}, {max}, 1), Errc::invalid_argument, "overflow");
}

TEST(PaddedLayout, TellsItsPaddedShape) {
  EXPECT_EQ(Layout::padded(f32, {3, 5}, {3, 8}).padded_shape(), (Extents{3, 8}));
  EXPECT_EQ(Layout::padded(f32, {3, 5}, {6, 8}).padded_shape(), (Extents{3, 8})) << "what follows the last row";
  EXPECT_EQ(Layout::padded(f32, {1, 5}, {1, 8}).padded_shape(), (Extents{1, 8}));
  EXPECT_EQ(Layout::padded(f32, {4, 1, 5}, {4, 3, 8}).padded_shape(), (Extents{4, 3, 8}));
  EXPECT_EQ(Layout::padded(f32, {4, 1}, {4, 7}).padded_shape(), (Extents{4, 7}));
  EXPECT_EQ(Layout::padded(f32, {3, 0}, {3, 8}).padded_shape(), (Extents{3, 8}));
  EXPECT_EQ(Layout::compact(f32, {2, 3, 4}, 8).padded_shape(), (Extents{2, 3, 4}));
  EXPECT_EQ(Layout::compact(f32, {}).padded_shape(), Extents{});
  EXPECT_EQ(Layout::compact(f32, {6, 8}).slice(0, {{}, {}, 2}).padded_shape(), (Extents{3, 16})) << "rows left out";
}

TEST(PaddedLayout, StridesThatNothingTakesDoNotMatter) {
  EXPECT_EQ((Layout{f32, {1, 5}, {0, 1}, 0}.padded_shape()), (Extents{1, 5}));
  EXPECT_EQ((Layout{f32, {4, 1, 5}, {8, 0, 1}, 0}.padded_shape()), (Extents{4, 1, 8}));
  EXPECT_EQ((Layout{f32, {4, 1, 5}, {8, 7, 1}, 0}.padded_shape()), (Extents{4, 1, 8}));
  EXPECT_EQ((Layout{f32, {4, 1}, {1, 99}, 0}.padded_shape()), (Extents{4, 1}));
  EXPECT_EQ((Layout{f32, {4, 0}, {7, 7}, 0}.padded_shape()), (Extents{4, 0}));
}

TEST(PaddedLayout, OtherLayoutsHaveNone) {
  EXPECT_EQ(Layout::compact(f32, {3, 5}).transpose().padded_shape(), std::nullopt);
  EXPECT_EQ(Layout::compact(f32, {5}).slice(0, {{}, {}, 2}).padded_shape(), std::nullopt);
  EXPECT_EQ(Layout::compact(f32, {5}).slice(0, {{}, {}, -1}).padded_shape(), std::nullopt);
  EXPECT_EQ((Layout{f32, {3, 5}, {0, 1}, 0}.padded_shape()), std::nullopt);
  EXPECT_EQ((Layout{f32, {3, 5}, {4, 1}, 0}.padded_shape()), std::nullopt) << "rows that overlap";
  EXPECT_EQ((Layout{f32, {2, 3, 5}, {25, 10, 1}, 0}.padded_shape()), std::nullopt) << "no whole number of rows";
  EXPECT_ERROR((Layout{f32, {3, 5}, {1}, 0}.padded_shape()), Errc::invalid_argument, "1 strides for 2 dimensions");
}

TEST(PaddedLayout, IsTheSameByItsPaddedShape) {
  RandomLayouts random(31);
  int padded = 0;
  for (int round = 0; round < 4000; ++round) {
    const auto shape = random.shape(4, 200);
    const Layout layout = random.layout(random.dtype(), shape, round % 2 == 0);
    const auto found = layout.padded_shape();
    if (!found) continue;
    padded += *found != shape;
    ASSERT_EQ(places(Layout::padded(layout.dtype, shape, *found, layout.byte_offset)), places(layout));
    auto larger = shape;
    for (auto& extent : larger) extent += random.between(0, 3);
    const Layout again = Layout::padded(u8, shape, larger);
    if (!larger.empty()) larger[0] = shape[0];
    ASSERT_EQ(again.padded_shape(), larger);
  }
  EXPECT_GT(padded, 100);
}

}  // namespace
}  // namespace weir::test
