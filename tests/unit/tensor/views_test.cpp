// SPDX-License-Identifier: Apache-2.0
// Parts of arrays, and arrays with other dimensions, against a model that lists every element.

#include <complex>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>

#include "expect.hpp"
#include "weir/layout.hpp"

namespace weir::test {
namespace {

using Extents = std::vector<std::int64_t>;
constexpr std::int64_t max = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t min = std::numeric_limits<std::int64_t>::min();

/// Where each element is, in bytes, in row-major order.
Extents places(const Layout& layout) {
  Extents all{static_cast<std::int64_t>(layout.byte_offset)};
  for (std::size_t i = 0; i < layout.shape.size(); ++i) {
    Extents next;
    for (const auto place : all) {
      for (std::int64_t k = 0; k < layout.shape[i]; ++k)
        next.push_back(place + k * layout.strides[i] * static_cast<std::int64_t>(layout.dtype.bytes()));
    }
    all = std::move(next);
  }
  return all;
}

/// The positions of a slice, found by trying each of them in order.
Extents positions(const Slice& range, std::int64_t extent) {
  const auto from_beginning = [extent](std::int64_t at) { return at < 0 ? at + extent : at; };
  Extents taken;
  const bool forward = range.step > 0;
  std::int64_t next = 0;
  bool begun = false;
  for (std::int64_t k = 0; k < extent; ++k) {
    const auto at = forward ? k : extent - 1 - k;
    if (range.begin && !begun && (forward ? at < from_beginning(*range.begin) : at > from_beginning(*range.begin)))
      continue;
    if (range.end && (forward ? at >= from_beginning(*range.end) : at <= from_beginning(*range.end))) continue;
    begun = true;
    if (next-- != 0) continue;
    taken.push_back(at);
    next = (forward ? range.step : -range.step) - 1;
  }
  return taken;
}

TEST(Slices, AllOfASmallDimension) {
  const Layout whole = Layout::compact(i16, {5}, 6);
  std::vector<std::optional<std::int64_t>> ends{std::nullopt};
  for (std::int64_t at = -7; at <= 7; ++at) ends.emplace_back(at);
  for (const auto& begin : ends) {
    for (const auto& end : ends) {
      for (const std::int64_t step : {-7, -3, -2, -1, 1, 2, 3, 7}) {
        const Slice range{begin, end, step};
        const Layout part = whole.slice(0, range);
        Extents model;
        for (const auto at : positions(range, 5)) model.push_back(6 + 2 * at);
        ASSERT_EQ(places(part), model) << begin.value_or(99) << ':' << end.value_or(99) << ':' << step;
        ASSERT_LE(part.bytes_needed(), whole.bytes_needed());
      }
    }
  }
}

TEST(Slices, ExtremePositionsAndSteps) {
  const Layout whole = Layout::compact(u8, {4});
  EXPECT_EQ(places(whole.slice(0, {min, max, max})), Extents{0});
  EXPECT_EQ(places(whole.slice(0, {max, min, min})), Extents{3});
  EXPECT_EQ(places(whole.slice(0, {min, min, 1})), Extents{});
  EXPECT_EQ(places(whole.slice(0, {{}, {}, -1})), (Extents{3, 2, 1, 0}));
  EXPECT_EQ(places(Layout::compact(u8, {max}).slice(0, {-2, {}, 1})), (Extents{max - 2, max - 1}));
  EXPECT_EQ(Layout::compact(u8, {max}).slice(0, {{}, {}, 2}).shape, Extents{max / 2 + 1});
  EXPECT_EQ((Layout{u8, {0, 4}, {1, max / 2}, 0}.slice(1, {{}, {}, 3}).shape), (Extents{0, 2}));
}

TEST(Slices, OfOneDimensionOfSeveral) {
  const Layout whole = Layout::compact(f32, {3, 4});
  EXPECT_EQ(places(whole.slice(1, {1, {}, 2})), (Extents{4, 12, 20, 28, 36, 44}));
  EXPECT_EQ(places(whole.slice(0, {{}, {}, -2}).slice(1, {{}, 1, 1})), (Extents{32, 0}));
  EXPECT_EQ(whole.slice(0, {2, 2, 1}).shape, (Extents{0, 4}));
  EXPECT_ERROR((void)whole.slice(2, {}), Errc::invalid_argument, "slice: dimension 2 of 2");
  EXPECT_ERROR((void)whole.slice(0, {{}, {}, 0}), Errc::invalid_argument, "the step is 0");
  EXPECT_ERROR((void)(Layout{f32, {2}, {-1}, 0}.slice(0, {})), Errc::invalid_argument, "before the beginning");
}

TEST(Indices, RemoveADimension) {
  const Layout whole = Layout::compact(f32, {3, 4}, 8);
  EXPECT_EQ(places(whole.at(0, 1)), (Extents{24, 28, 32, 36}));
  EXPECT_EQ(places(whole.at(1, -1)), (Extents{20, 36, 52}));
  EXPECT_EQ(places(whole.at(0, 0).at(0, 0)), Extents{8});
  EXPECT_ERROR((void)whole.at(0, 3), Errc::invalid_argument, "at: index 3 of 3");
  EXPECT_ERROR((void)whole.at(0, -4), Errc::invalid_argument, "at: index -4 of 3");
  EXPECT_ERROR((void)whole.at(0, min), Errc::invalid_argument, "of 3");
  EXPECT_ERROR((void)whole.at(2, 0), Errc::invalid_argument, "at: dimension 2 of 2");
}

TEST(Permutations, MoveStridesAlong) {
  const Layout whole = Layout::compact(u8, {2, 3, 4});
  EXPECT_EQ(whole.permute({2, 0, 1}).strides, (Extents{1, 12, 4}));
  EXPECT_EQ(whole.permute({2, 0, 1}).shape, (Extents{4, 2, 3}));
  EXPECT_EQ(whole.transpose().strides, (Extents{1, 4, 12}));
  EXPECT_EQ(whole.transpose().transpose().strides, whole.strides);
  EXPECT_EQ(Layout::compact(u8, {}).transpose().shape, Extents{});
  for (const std::vector<std::size_t>& wrong : {std::vector<std::size_t>{0, 1}, {0, 1, 1}, {0, 1, 3}, {0, 1, 2, 2}})
    EXPECT_ERROR((void)whole.permute(wrong), Errc::invalid_argument, "named once");
}

TEST(Reshapes, MoveNothing) {
  const Layout whole = Layout::compact(i32, {2, 3, 4}, 4);
  for (const Extents& shape : {Extents{24}, {4, 6}, {2, 3, 2, 2}, {1, 24, 1}, {6, 1, 4}, {2, 12}})
    EXPECT_EQ(places(whole.reshape(shape)), places(whole));
  EXPECT_EQ(whole.reshape({-1, 4}).shape, (Extents{6, 4}));
  EXPECT_EQ(whole.reshape({-1}).shape, Extents{24});
  EXPECT_EQ(Layout::compact(i32, {1, 1}).reshape({}).shape, Extents{});
  EXPECT_EQ(Layout::compact(i32, {}).reshape({1, 1}).shape, (Extents{1, 1}));
  EXPECT_EQ(Layout::compact(i32, {0, 3}).reshape({5, 0}).shape, (Extents{5, 0}));
  EXPECT_ERROR((void)whole.reshape({5, 5}), Errc::invalid_argument,
               "24 elements of shape (2, 3, 4) have no shape (5, 5)");
  EXPECT_ERROR((void)whole.reshape({-1, 5}), Errc::invalid_argument, "have no shape (-1, 5)");
  EXPECT_ERROR((void)whole.reshape({-1, -1}), Errc::invalid_argument, "");
  EXPECT_ERROR((void)whole.reshape({-2, -12}), Errc::invalid_argument, "negative");
  EXPECT_ERROR((void)Layout::compact(i32, {0}).reshape({-1, 0}), Errc::invalid_argument, "have no shape");
  EXPECT_ERROR((void)whole.transpose().reshape({24}), Errc::invalid_argument, "have to be copied for shape (24)");
  const Layout huge{u8, {2, 2}, {0, max / 2 + 1}, 0};  // the product of stride and extent is beyond 64 bits
  EXPECT_ERROR((void)huge.reshape({4}), Errc::invalid_argument, "have to be copied");
  EXPECT_EQ(huge.reshape({2, 1, 2}).bytes_needed(), huge.bytes_needed());
}

/// Random steps from random layouts: each names elements that the last one named, in the order of a model.
TEST(Views, RandomSteps) {
  std::mt19937 random(20);  // NOLINT(*-msc51-cpp): each run is the same
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  int reshaped = 0;
  for (int round = 0; round < 3000; ++round) {
    Extents shape;
    for (std::int64_t i = draw(0, 4); i > 0; --i) shape.push_back(draw(1, 5));
    Layout layout = Layout::compact(i16, shape, 2 * static_cast<std::size_t>(draw(0, 3)));
    for (int step = 0; step < 4; ++step) {
      const auto before = places(layout);
      const auto dimensions = layout.shape.size();
      const auto what = draw(0, 3);
      if (what == 0) {
        Extents other;
        auto left = layout.elements();
        for (int i = 0; i < 3 && left > 1; ++i) {
          auto extent = draw(1, left);
          while (left % extent != 0) --extent;
          other.push_back(extent);
          left /= extent;
        }
        other.push_back(left);
        try {
          layout = layout.reshape(other);
          ++reshaped;
        } catch (const Error&) {
          EXPECT_FALSE(layout.is_compact());
        }
        ASSERT_EQ(places(layout), before);
        continue;
      }
      if (dimensions == 0) continue;
      const auto dimension = static_cast<std::size_t>(draw(0, static_cast<std::int64_t>(dimensions) - 1));
      std::vector<std::size_t> order(dimensions);
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::swap(order.front(), order[dimension]);  // so that the model can take whole rows
      const Layout first = layout.permute(order);
      ASSERT_EQ(first.permute(order).strides, layout.strides);
      const auto rows = places(first);
      const auto extent = first.shape.front();
      const auto row = extent == 0 ? 0 : static_cast<std::int64_t>(rows.size()) / extent;
      Extents taken;
      Layout part;
      if (what == 1 && extent > 0) {
        taken = {draw(0, extent - 1)};
        part = first.at(0, taken.front() - (draw(0, 1) != 0 ? extent : 0));
      } else {
        const std::int64_t steps[] = {-3, -2, -1, 1, 2, 3};
        const Slice range{draw(-6, 6), draw(-6, 6), steps[draw(0, 5)]};
        taken = positions(range, extent);
        part = first.slice(0, range);
      }
      Extents model;
      for (const auto at : taken) model.insert(model.end(), rows.begin() + at * row, rows.begin() + (at + 1) * row);
      ASSERT_EQ(places(part), model);
      layout = part;
    }
  }
  EXPECT_GT(reshaped, 1000);
}

TEST(DTypes, OfCppTypes) {
  EXPECT_EQ(dtype_of<float>, f32);
  EXPECT_EQ(dtype_of<double>, f64);
  EXPECT_EQ(dtype_of<std::int8_t>, i8);
  EXPECT_EQ(dtype_of<std::uint16_t>, u16);
  EXPECT_EQ(dtype_of<std::int64_t>, i64);
  EXPECT_EQ(dtype_of<long long>, i64);
  EXPECT_EQ(dtype_of<std::byte>, u8);
  EXPECT_EQ(dtype_of<bool>, bool8);
  EXPECT_EQ(dtype_of<std::complex<float>>, c64);
  EXPECT_EQ(dtype_of<std::complex<double>>, c128);
}

}  // namespace
}  // namespace weir::test
