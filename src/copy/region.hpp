// SPDX-License-Identifier: Apache-2.0
#pragma once
// The geometry of region copies: in how few dimensions the rows lie, which range they touch, and how to cut them into
// pieces. Nothing here touches memory.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "weir/spi/region.hpp"

namespace weir::detail {

/// A region, and where its first row is on both sides, in bytes from wherever the caller counts.
struct PlacedRegion {
  std::size_t dst, src;
  spi::Region region;
};

/// A range of bytes.
struct Range {
  std::size_t begin, end;
};

/// Return the region of all elements of `element_bytes` in arrays of this shape, whose strides are in elements. No
/// extent is 0, both arrays reach from their beginning nowhere below byte 0, and no two elements of the destination
/// share a byte.
[[nodiscard]] PlacedRegion region_between(std::size_t element_bytes, std::span<const std::int64_t> shape,
                                          std::size_t dst, std::span<const std::int64_t> dst_strides, std::size_t src,
                                          std::span<const std::int64_t> src_strides);

/// Return the smallest range that all rows lie in.
[[nodiscard]] Range written_range(const PlacedRegion& placed);
[[nodiscard]] Range read_range(const PlacedRegion& placed);

/// Cut the region into pieces of at most `most` bytes (> 0), and call `piece` for each.
void in_pieces(const PlacedRegion& placed, std::size_t most, const std::function<void(const PlacedRegion&)>& piece);

/// Call `piece` for copies that spread the first row of the destination to all of its rows, each of which reads what
/// those before it have written. They are as few as doubling makes. Only the destination of `placed` counts.
void spread_first_row(const PlacedRegion& placed, const std::function<void(const PlacedRegion&)>& piece);

/// A region copy in two steps, with the rows dense in between.
struct Detour {
  std::size_t bytes;  ///< in between
  PlacedRegion in, out;
};

/// Lay the rows out in between as the source has them, so that `in` has as few rows as the source allows. A row that
/// goes to several places is there once. Places in between are counted from 0.
[[nodiscard]] Detour packed_as_source(const PlacedRegion& placed);
/// Lay the rows out in between as the destination has them, so that `out` has as few rows as the destination allows.
[[nodiscard]] Detour packed_as_destination(const PlacedRegion& placed);

}  // namespace weir::detail
