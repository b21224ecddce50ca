// SPDX-License-Identifier: Apache-2.0
// The driver's copies of a region move the region's rows, each once, and have only the forms that the driver takes.
#include "cuda/rectangles.hpp"

#include <gtest/gtest.h>

#include <map>

#include "copy/region.hpp"
#include "random_layouts.hpp"

namespace weir::cuda_test {
namespace {

using detail::PlacedRegion;
using spi::Region;
using Rows = std::map<CUdeviceptr, CUdeviceptr>;  // where each written row comes from

constexpr CUdeviceptr base = CUdeviceptr{1} << 40;

Rows rows_of(const PlacedRegion& placed) {
  Rows rows;
  spi::for_each_row(placed.region.dimensions, [&](std::ptrdiff_t dst, std::ptrdiff_t src) {
    rows[base + placed.dst + static_cast<CUdeviceptr>(dst)] = placed.src + static_cast<CUdeviceptr>(src);
  });
  return rows;
}

void expect_legal(const CUDA_MEMCPY3D& one) {
  EXPECT_EQ(one.dstMemoryType, CU_MEMORYTYPE_UNIFIED);
  EXPECT_EQ(one.srcMemoryType, CU_MEMORYTYPE_UNIFIED);
  EXPECT_GT(one.Height, 0U);
  EXPECT_GT(one.Depth, 0U);
  EXPECT_GE(one.dstPitch, one.WidthInBytes);
  EXPECT_GE(one.srcPitch, one.WidthInBytes);
  if (one.Height != 1 || one.Depth != 1) {
    EXPECT_LE(std::max(one.dstPitch, one.srcPitch), 0x7fffffffU);
  }
  EXPECT_GE(one.dstHeight, one.Height);
  EXPECT_GE(one.srcHeight, one.Height);
}

// Return how many calls the region takes.
int check(const PlacedRegion& placed) {
  Rows rows;
  int calls = 0;
  cuda::for_each_rectangle(base + placed.dst, placed.src, placed.region, [&](const CUDA_MEMCPY3D& one) {
    ++calls;
    expect_legal(one);
    EXPECT_EQ(one.WidthInBytes, placed.region.row_bytes);
    for (std::size_t z = 0; z < one.Depth; ++z) {
      for (std::size_t y = 0; y < one.Height; ++y) {
        const auto [row, fresh] = rows.emplace(one.dstDevice + (z * one.dstHeight + y) * one.dstPitch,
                                               one.srcDevice + (z * one.srcHeight + y) * one.srcPitch);
        EXPECT_TRUE(fresh) << "the row at " << row->first - base << " is written twice";
      }
    }
  });
  EXPECT_EQ(rows, rows_of(placed));
  return calls;
}

TEST(Rectangles, MoveTheRowsOfAllSorts) {
  test::RandomLayouts random(11);
  for (int round = 0; round < 3000; ++round) {
    const DType type = random.dtype();
    const auto shape = random.shape(5, 200);
    const Layout dst = random.layout(type, shape, false), src = random.layout(type, shape, true);
    check(detail::region_between(type.bytes(), shape, dst.byte_offset, dst.strides, src.byte_offset, src.strides));
    if (testing::Test::HasFailure()) return;
  }
}

int calls(Region region) { return check({4096, 4096, std::move(region)}); }

TEST(Rectangles, AreFew) {
  EXPECT_EQ(calls({16, {{30, 28, 16}}}), 1) << "padded rows";
  EXPECT_EQ(calls({16, {{5, 1024, 2048}, {30, 32, 16}}}), 1) << "planes of padded rows";
  EXPECT_EQ(calls({16, {{7, 8192, 16384}, {5, 1024, 2048}, {30, 32, 16}}}), 5)
      << "one for each of the shortest dimension";
  EXPECT_EQ(calls({16, {{5, 1000, 2048}, {30, 32, 16}}}), 5) << "planes that are no whole number of rows apart";
  EXPECT_EQ(calls({16, {{5, 32, 2048}, {30, 160, 16}}}), 5) << "planes that lie between each other's rows";
  EXPECT_EQ(calls({16, {{30, 16, -16}}}), 30) << "backward";
  EXPECT_EQ(calls({16, {{30, 16, 8}}}), 30) << "rows that share bytes of the source";
  EXPECT_EQ(calls({16, {{30, 16, 0}}}), 30) << "one row in many places";
  EXPECT_EQ(calls({4, {{20, 16, 4}, {4, 4, 80}}}), 4) << "turned: the longer dimension is in one call";
  EXPECT_EQ(calls({16, {{3, std::ptrdiff_t{1} << 33, 16}}}), 3) << "a pitch beyond the driver's";
  constexpr std::size_t long_row = std::size_t{3} << 30;
  EXPECT_EQ(calls({long_row, {{2, std::ptrdiff_t{1} << 32, long_row}}}), 2) << "rows longer than that";
}

}  // namespace
}  // namespace weir::cuda_test
