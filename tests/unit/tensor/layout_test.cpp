// SPDX-License-Identifier: Apache-2.0
// Arrays in memory: extents, strides, the bytes that they need, and everything that overflows.

#include <cstdint>
#include <limits>
#include <utility>

#include "expect.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

constexpr std::int64_t max = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t min = std::numeric_limits<std::int64_t>::min();
using Extents = std::vector<std::int64_t>;

TEST(Layout, CompactStrides) {
  EXPECT_EQ(Layout::compact(f32, {2, 3, 4}).strides, (Extents{12, 4, 1}));
  EXPECT_EQ(Layout::compact(f32, {}).strides, Extents{});
  EXPECT_EQ(Layout::compact(f32, {5}).strides, Extents{1});
  EXPECT_EQ(Layout::compact(f32, {5, 1, 1}).strides, (Extents{1, 1, 1}));
  EXPECT_EQ(Layout::compact(f32, {2}, 12).byte_offset, 12U);
}

TEST(Layout, Elements) {
  EXPECT_EQ(Layout::compact(f32, {}).elements(), 1);
  EXPECT_EQ(Layout::compact(f32, {2, 3, 4}).elements(), 24);
  EXPECT_EQ(Layout::compact(f32, {2, 0, 4}).elements(), 0);
  EXPECT_EQ((Layout{u8, {0, max, max}, {1, 1, 1}}).elements(), 0) << "zero wins over overflow";
}

TEST(Layout, BytesNeeded) {
  struct Case {
    Layout layout;
    std::size_t bytes;
  };
  const Case cases[] = {
      {Layout::compact(f32, {}), 4},
      {Layout::compact(f32, {2, 3}), 24},
      {Layout::compact(f32, {2, 3}, 100), 124},
      {Layout::compact(f64, {0}), 0},
      {Layout::compact(f64, {3, 0}, 1000), 0},
      {{u8, {10}, {3}, 0}, 28},
      {{u8, {10}, {0}, 5}, 6},
      {{i16, {10}, {-1}, 18}, 20},
      {{i16, {3, 4}, {-4, 2}, 16}, 30},
      {{u8, {1}, {max}, 0}, 1},
      {{u8, {1, 1}, {min, min}, 0}, 1},
      {{{1, 8, 4}, {5}, {1}, 0}, 20},
      {Layout::compact(c128, {2}), 32},
      {Layout::compact(u8, {max}), static_cast<std::size_t>(max)},
  };
  for (const Case& c : cases) EXPECT_EQ(c.layout.bytes_needed(), c.bytes) << c.layout.dtype.to_string();
}

TEST(Layout, NegativeExtentsAreRefused) {
  EXPECT_ERROR((Layout::compact(f32, {3, -1})), Errc::invalid_argument, "-1");
  EXPECT_ERROR((Layout::compact(f32, {0, min})), Errc::invalid_argument, "negative");
  EXPECT_ERROR((Layout{f32, {-2}, {1}, 0}.bytes_needed()), Errc::invalid_argument, "-2");
}

TEST(Layout, ReachingBelowTheBufferIsRefused) {
  EXPECT_ERROR((Layout{u8, {10}, {-1}, 8}.bytes_needed()), Errc::invalid_argument, "1 bytes before");
  EXPECT_ERROR((Layout{u8, {2, 3}, {-1, -2}, 4}.bytes_needed()), Errc::invalid_argument, "1 bytes before");
  EXPECT_ERROR((Layout{u8, {2}, {min}, 0}.bytes_needed()), Errc::invalid_argument, "9223372036854775808 bytes before");
  EXPECT_ERROR((Layout{f32, {2}, {min}, 0}.bytes_needed()), Errc::invalid_argument, "overflow");
}

TEST(Layout, OverflowIsRefused) {
  EXPECT_ERROR((Layout::compact(u8, {max, 2})), Errc::invalid_argument, "overflow");
  EXPECT_ERROR((Layout::compact(u16, {max}).bytes_needed()), Errc::invalid_argument, "overflow");
  EXPECT_ERROR((Layout::compact(u8, {max}, 1).bytes_needed()), Errc::invalid_argument, "overflow");
  EXPECT_ERROR((Layout::compact(u8, {1}, SIZE_MAX).bytes_needed()), Errc::invalid_argument, "overflow");
  EXPECT_ERROR((Layout{u8, {3}, {max}, 0}.bytes_needed()), Errc::invalid_argument, "overflow");
  EXPECT_ERROR((Layout{u8, {2, 2}, {max, max}, 0}.bytes_needed()), Errc::invalid_argument, "overflow");
  EXPECT_ERROR((Layout{u8, {max, max}, {0, 0}, 0}.elements()), Errc::invalid_argument, "overflow");
}

TEST(Layout, ShapesStridesAndTypesMustFitTogether) {
  EXPECT_ERROR((Layout{u8, {2, 2}, {1}, 0}.bytes_needed()), Errc::invalid_argument, "1 strides for 2 dimensions");
  EXPECT_ERROR((Layout{{1, 0, 1}, {2}, {1}, 0}.bytes_needed()), Errc::invalid_argument, "type");
  EXPECT_ERROR((Layout{{1, 8, 0}, {2}, {1}, 0}.bytes_needed()), Errc::invalid_argument, "type");
  EXPECT_ERROR((Layout{{1, 4, 1}, {2}, {1}, 0}.bytes_needed()), Errc::invalid_argument, "whole bytes");
  EXPECT_ERROR((Layout{{17, 4, 1}, {8}, {1}, 0}.bytes_needed()), Errc::invalid_argument,
               "elements of type float4_e2m1fn are not whole bytes");
  EXPECT_ERROR((Layout{{16, 6, 2}, {0}, {1}, 0}.bytes_needed()), Errc::invalid_argument, "float6_e3m2fnx2");
  EXPECT_EQ((Layout{{17, 4, 2}, {8}, {1}, 0}.bytes_needed()), 8U) << "two of four bits are one byte";
  EXPECT_EQ((Layout{{15, 6, 4}, {8}, {1}, 0}.bytes_needed()), 24U);
}

TEST(Layout, IsCompact) {
  EXPECT_TRUE(Layout::compact(f32, {2, 3, 4}).is_compact());
  EXPECT_TRUE(Layout::compact(f32, {}).is_compact());
  EXPECT_TRUE((Layout{f32, {1, 4}, {99, 1}, 0}.is_compact())) << "a stride of one element is never taken";
  EXPECT_TRUE((Layout{f32, {4, 0}, {7, 7}, 0}.is_compact()));
  EXPECT_TRUE((Layout{f32, {0, 4}, {7, 7}, 0}.is_compact())) << "NumPy gives arrays without elements such strides";
  EXPECT_FALSE((Layout{f32, {2, 3}, {4, 1}, 0}.is_compact()));
  EXPECT_FALSE((Layout{f32, {2, 3}, {1, 2}, 0}.is_compact()));
  EXPECT_FALSE((Layout{f32, {2}, {-1}, 0}.is_compact()));
  EXPECT_FALSE((Layout{f32, {2, 3}, {}, 0}.is_compact()));
  EXPECT_FALSE((Layout{f32, {2, 3}, {1}, 0}.is_compact()));
  EXPECT_FALSE((Layout{f32, {-2}, {1}, 0}.is_compact()));
  EXPECT_FALSE((Layout{f32, {4, max, max}, {0, max, 1}, 0}.is_compact())) << "no such stride in 64 bits";
}

TEST(DTypes, NamesAndSizes) {
  EXPECT_EQ(f32.to_string(), "float32");
  EXPECT_EQ(u8.to_string(), "uint8");
  EXPECT_EQ(i64.to_string(), "int64");
  EXPECT_EQ(bf16.to_string(), "bfloat16");
  EXPECT_EQ(c64.to_string(), "complex64");
  EXPECT_EQ(bool8.to_string(), "bool");
  EXPECT_EQ((DType{1, 8, 4}).to_string(), "uint8x4");
  EXPECT_EQ((DType{1, 4, 3}).bytes(), 2U);
  EXPECT_EQ((DType{2, 65535 % 256, 65535}).bytes(), (255ULL * 65535 + 7) / 8);
  EXPECT_EQ((DType{99, 8, 1}).to_string(), "code99_8");
}

TEST(DTypes, EveryCodeOfDlpackHasItsName) {
  const std::pair<DType, const char*> all[] = {
      {{3, 64, 1}, "handle64"},        {{7, 8, 1}, "float8_e3m4"},
      {{8, 8, 1}, "float8_e4m3"},      {{9, 8, 1}, "float8_e4m3b11fnuz"},
      {{10, 8, 1}, "float8_e4m3fn"},   {{11, 8, 1}, "float8_e4m3fnuz"},
      {{12, 8, 1}, "float8_e5m2"},     {{13, 8, 1}, "float8_e5m2fnuz"},
      {{14, 8, 1}, "float8_e8m0fnu"},  {{15, 6, 1}, "float6_e2m3fn"},
      {{16, 6, 1}, "float6_e3m2fn"},   {{17, 4, 1}, "float4_e2m1fn"},
      {{17, 4, 2}, "float4_e2m1fnx2"}, {{17, 8, 1}, "code17_8"},  // DLPack says nothing about such
      {{18, 8, 2}, "code18_8x2"},      {{6, 1, 1}, "bool1"}};
  for (const auto& [dtype, name] : all) EXPECT_EQ(dtype.to_string(), name);
}

}  // namespace
}  // namespace weir::test
