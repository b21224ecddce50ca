// SPDX-License-Identifier: Apache-2.0
#pragma once
// How far to pad a dimension of an array that several kernels use. First, read layout.hpp.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weir/export.hpp"
#include "weir/layout.hpp"

namespace weir {

/// What the users of one dimension of an array ask of its padded extent. A plain value: each user states its needs, and
/// `unite` makes of them the needs of all. Extents are numbers of elements.
struct WEIR_API PaddingNeeds {
  std::int64_t size = 0;         ///< of what is used; the same for all users
  std::int64_t at_least = 0;     ///< the padded extent is not smaller
  std::int64_t multiple_of = 1;  ///< the padded extent is a multiple
  std::int64_t aligned_to = 1;   ///< a wish: extent() is a multiple of this, and other extents are still allowed
  bool exact = false;            ///< padding is not allowed; then `aligned_to` does not count

  /// Return the needs of both users. Throws invalid_argument when their sizes differ, when no padded extent suits both,
  /// and when a common multiple overflows 64 bits; the message names the numbers.
  [[nodiscard]] PaddingNeeds unite(const PaddingNeeds& other) const;
  /// Return the padded extent to choose: the smallest one that is allowed, rounded up to `aligned_to` unless that is
  /// larger than the extent itself, because rows of few elements would then be mostly padding, or needs more than 64
  /// bits. Throws invalid_argument when no extent is allowed, for negative numbers and multiples below 1, and when the
  /// smallest extent overflows 64 bits.
  [[nodiscard]] std::int64_t extent() const;
  /// Return whether an array that is padded to `padded` suits all users.
  [[nodiscard]] bool allows(std::int64_t padded) const noexcept;
};

/// Return the padded shape to choose for an array with these dimensions, as Layout::padded takes it. Throws what
/// PaddingNeeds::extent throws.
[[nodiscard]] WEIR_API std::vector<std::int64_t> padded_shape(std::span<const PaddingNeeds> dimensions);

/// Return the smallest number of elements of `dtype` whose bytes are a multiple of `bytes`: for
/// PaddingNeeds::aligned_to of the innermost dimension, so that every row begins on a line of that many bytes. Throws
/// invalid_argument for 0 bytes, for elements without bytes, and when the number overflows 64 bits.
[[nodiscard]] WEIR_API std::int64_t elements_per_line(DType dtype, std::size_t bytes = 128);

}  // namespace weir
