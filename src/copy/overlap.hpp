// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether the bytes of two regions are the same somewhere. The answer is exact: two regions whose rows interleave
// without touching do not overlap.

#include <cstdint>

#include "copy/region.hpp"

namespace weir::detail {

enum class Overlap : std::uint8_t {
  no,
  yes,
  unknown,  ///< finding out would take too long, which only layouts with many unrelated strides do
};

/// Return whether a row that is read shares a byte with a row that is written, when byte 0 of the source is byte
/// `distance` of the destination.
[[nodiscard]] Overlap overlap_of_sides(const PlacedRegion& placed, std::int64_t distance);

/// Return whether elements of an array share bytes.
[[nodiscard]] Overlap overlap_of_elements(std::size_t element_bytes, std::span<const std::int64_t> shape,
                                          std::span<const std::int64_t> strides);

}  // namespace weir::detail
