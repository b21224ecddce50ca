// SPDX-License-Identifier: Apache-2.0
// The driver copies `Depth` times `Height` rows. Rows are a pitch apart, which is at least their length; planes are a
// whole number of pitches apart, which is at least their height.
#include "rectangles.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace weir::cuda {
namespace {

using spi::RegionDimension;
using Dimensions = std::vector<RegionDimension>;

constexpr std::ptrdiff_t most_pitch = 0x7fffffff;  // CU_DEVICE_ATTRIBUTE_MAX_PITCH of every device so far

// Take the dimension with the most indices out of those that suit.
template <class Suits>
std::optional<RegionDimension> take(Dimensions& dimensions, const Suits& suits) {
  auto found = dimensions.end();
  for (auto one = dimensions.begin(); one != dimensions.end(); ++one) {
    if (suits(*one) && (found == dimensions.end() || found->count <= one->count)) found = one;
  }
  if (found == dimensions.end()) return std::nullopt;
  const RegionDimension taken = *found;
  dimensions.erase(found);
  return taken;
}

}  // namespace

void for_each_rectangle(CUdeviceptr dst, CUdeviceptr src, const spi::Region& region,
                        const std::function<void(const CUDA_MEMCPY3D&)>& copy) {
  CUDA_MEMCPY3D all{};
  all.dstMemoryType = all.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  all.WidthInBytes = region.row_bytes;
  all.Height = all.Depth = 1;
  Dimensions others = region.dimensions;
  const auto row = static_cast<std::ptrdiff_t>(region.row_bytes);
  const auto rows = take(others, [&](const RegionDimension& dimension) {
    return std::min(dimension.src_step, dimension.dst_step) >= row &&
           std::max(dimension.src_step, dimension.dst_step) <= most_pitch;
  });
  if (rows) {
    all.Height = all.dstHeight = all.srcHeight = rows->count;
    all.dstPitch = static_cast<std::size_t>(rows->dst_step);
    all.srcPitch = static_cast<std::size_t>(rows->src_step);
    const auto height = static_cast<std::ptrdiff_t>(rows->count);
    const auto stacks = [height](std::ptrdiff_t step, std::ptrdiff_t pitch) {
      return step % pitch == 0 && step / pitch >= height;
    };
    const auto planes = take(others, [&](const RegionDimension& dimension) {
      return stacks(dimension.dst_step, rows->dst_step) && stacks(dimension.src_step, rows->src_step);
    });
    if (planes) {
      all.Depth = planes->count;
      all.dstHeight = static_cast<std::size_t>(planes->dst_step / rows->dst_step);
      all.srcHeight = static_cast<std::size_t>(planes->src_step / rows->src_step);
    }
  } else {
    all.dstPitch = all.srcPitch = region.row_bytes;
    all.dstHeight = all.srcHeight = 1;
  }
  spi::for_each_row(others, [&](std::ptrdiff_t to, std::ptrdiff_t from) {
    all.dstDevice = dst + static_cast<CUdeviceptr>(to);
    all.srcDevice = src + static_cast<CUdeviceptr>(from);
    copy(all);
  });
}

}  // namespace weir::cuda
