// SPDX-License-Identifier: Apache-2.0
#include "copy/region.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace weir::detail {
namespace {

using spi::Region;
using spi::RegionDimension;

// A product may be that of a step which nothing takes, and too large then.
std::ptrdiff_t times(std::ptrdiff_t step, std::size_t count) {
  return static_cast<std::ptrdiff_t>(static_cast<std::size_t>(step) * count);
}

bool continues(const RegionDimension& outer, const RegionDimension& inner) {
  return outer.dst_step == times(inner.dst_step, inner.count) && outer.src_step == times(inner.src_step, inner.count);
}

// Bring the dimensions into the form that Region has: all destinations forward, the largest steps outside, and as few
// dimensions as possible.
void simplify(PlacedRegion& placed) {
  auto& [row, all] = placed.region;
  std::erase_if(all, [](const RegionDimension& dimension) { return dimension.count == 1; });
  for (RegionDimension& dimension : all) {
    if (dimension.dst_step >= 0) continue;
    placed.dst += static_cast<std::size_t>(times(dimension.dst_step, dimension.count - 1));
    placed.src += static_cast<std::size_t>(times(dimension.src_step, dimension.count - 1));
    dimension.dst_step = -dimension.dst_step;
    dimension.src_step = -dimension.src_step;
  }
  std::ranges::stable_sort(all, std::greater{}, &RegionDimension::dst_step);
  while (!all.empty() && continues(all.back(), {1, std::ptrdiff_t(row), std::ptrdiff_t(row)})) {
    row *= all.back().count;
    all.pop_back();
  }
  std::vector<RegionDimension> merged;
  for (const RegionDimension& dimension : all) {
    if (!merged.empty() && continues(merged.back(), dimension)) {
      merged.back() = {merged.back().count * dimension.count, dimension.dst_step, dimension.src_step};
    } else {
      merged.push_back(dimension);
    }
  }
  all = std::move(merged);
}

Range range_of(const PlacedRegion& placed, std::size_t begin, std::ptrdiff_t RegionDimension::*step) {
  Range range{begin, begin + placed.region.row_bytes};
  for (const RegionDimension& dimension : placed.region.dimensions) {
    const auto reach = static_cast<std::size_t>(times(dimension.*step, dimension.count - 1));
    (dimension.*step < 0 ? range.begin : range.end) += reach;
  }
  return range;
}

// Lay the rows out densely in the order of one side's steps.
template <bool AsSource>
Detour packed(const PlacedRegion& placed) {
  const auto step = AsSource ? &RegionDimension::src_step : &RegionDimension::dst_step;
  Detour detour{placed.region.row_bytes,
                {0, placed.src, {placed.region.row_bytes, {}}},
                {placed.dst, 0, {placed.region.row_bytes, {}}}};
  auto dimensions = placed.region.dimensions;
  const auto size = [step](const RegionDimension& dimension) { return std::abs(dimension.*step); };
  std::ranges::stable_sort(dimensions, std::less{}, size);
  for (const RegionDimension& dimension : dimensions) {
    const bool again = AsSource && dimension.src_step == 0;  // the same row: it is in between once
    auto between = again ? 0 : static_cast<std::ptrdiff_t>(detour.bytes);
    if (AsSource && dimension.src_step < 0) {
      detour.in.dst += detour.bytes * (dimension.count - 1);
      detour.out.src += detour.bytes * (dimension.count - 1);
      between = -between;
    }
    if (!again) {
      detour.bytes *= dimension.count;
      detour.in.region.dimensions.push_back({dimension.count, between, dimension.src_step});
    }
    detour.out.region.dimensions.push_back({dimension.count, dimension.dst_step, between});
  }
  simplify(detour.in);
  simplify(detour.out);
  return detour;
}

}  // namespace

PlacedRegion region_between(std::size_t element_bytes, std::span<const std::int64_t> shape, std::size_t dst,
                            std::span<const std::int64_t> dst_strides, std::size_t src,
                            std::span<const std::int64_t> src_strides) {
  PlacedRegion placed{dst, src, {element_bytes, {}}};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    placed.region.dimensions.push_back({static_cast<std::size_t>(shape[i]), times(dst_strides[i], element_bytes),
                                        times(src_strides[i], element_bytes)});
  }
  simplify(placed);
  return placed;
}

Range written_range(const PlacedRegion& placed) { return range_of(placed, placed.dst, &RegionDimension::dst_step); }
Range read_range(const PlacedRegion& placed) { return range_of(placed, placed.src, &RegionDimension::src_step); }

void in_pieces(const PlacedRegion& placed, std::size_t most, const std::function<void(const PlacedRegion&)>& piece) {
  if (placed.region.bytes() <= most) return piece(placed);
  PlacedRegion part = placed;
  auto& all = part.region.dimensions;
  if (all.empty()) {
    for (std::size_t done = 0; done < placed.region.row_bytes; done += most) {
      part.region.row_bytes = std::min(most, placed.region.row_bytes - done);
      part.dst = placed.dst + done;
      part.src = placed.src + done;
      piece(part);
    }
    return;
  }
  const RegionDimension outermost = all.front();
  const auto at_once = std::max<std::size_t>(most / (placed.region.bytes() / outermost.count), 1);
  for (std::size_t done = 0; done < outermost.count; done += at_once) {
    part = placed;
    part.dst += static_cast<std::size_t>(times(outermost.dst_step, done));
    part.src += static_cast<std::size_t>(times(outermost.src_step, done));
    all.front().count = std::min(at_once, outermost.count - done);
    if (all.front().count == 1) all.erase(all.begin());
    in_pieces(part, most, piece);
  }
}

void spread_first_row(const PlacedRegion& placed, const std::function<void(const PlacedRegion&)>& piece) {
  auto inner = placed.region.dimensions;
  for (RegionDimension& dimension : inner) dimension.src_step = dimension.dst_step;
  PlacedRegion part{0, placed.dst, {placed.region.row_bytes, {}}};
  auto& copied = part.region.dimensions;
  for (; !inner.empty(); inner.pop_back()) {
    const RegionDimension along = inner.back();
    for (std::size_t done = 1; done < along.count;) {
      const auto count = std::min(done, along.count - done);
      part.dst = placed.dst + static_cast<std::size_t>(times(along.dst_step, done));
      if (count > 1) copied.insert(copied.begin(), {count, along.dst_step, along.dst_step});
      piece(part);
      if (count > 1) copied.erase(copied.begin());
      done += count;
    }
    copied.insert(copied.begin(), along);
  }
}

Detour packed_as_source(const PlacedRegion& placed) { return packed<true>(placed); }
Detour packed_as_destination(const PlacedRegion& placed) { return packed<false>(placed); }

}  // namespace weir::detail
