// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which bytes a region copy moves: rows of equal size, at equal distances along each of some dimensions.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "weir/spi/location.hpp"

namespace weir::spi {

/// One dimension of a region. The steps are bytes from one index to the next.
struct RegionDimension {
  std::size_t count = 0;        ///< of indices, more than 1
  std::ptrdiff_t dst_step = 0;  ///< > 0
  std::ptrdiff_t src_step = 0;  ///< any; 0 where one row is copied to several places
  friend bool operator==(const RegionDimension&, const RegionDimension&) = default;  ///< whether all three are equal
};

/// The rows of a region copy. There is a row for each combination of indices; all rows are apart from each other where
/// they are written. Steps and rows are such that no two dimensions could be one.
struct Region {
  std::size_t row_bytes = 0;                ///< > 0; contiguous on both sides
  std::vector<RegionDimension> dimensions;  ///< the one with the largest dst_step first

  /// Return the product of all counts.
  [[nodiscard]] std::size_t rows() const noexcept {
    std::size_t product = 1;
    for (const RegionDimension& dimension : dimensions) product *= dimension.count;
    return product;
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return rows() * row_bytes; }  ///< of all rows
  friend bool operator==(const Region&, const Region&) = default;  ///< whether rows and dimensions are equal
};

/// Copy a region between two places that a stream's backend can reach. Rows that are read and rows that are written do
/// not overlap.
struct RegionOp {
  /// Where the first row is.
  ///@{
  Location dst, src;
  ///@}
  std::shared_ptr<const Region> region;  ///< never null, with at least one dimension
};

/// Call `row(dst, src)` for each row, with its distances in bytes from the first row, in order of the destination.
template <class Row>
void for_each_row(std::span<const RegionDimension> dimensions, Row&& row, std::ptrdiff_t dst = 0,
                  std::ptrdiff_t src = 0) {
  if (dimensions.empty()) return row(dst, src);
  const RegionDimension& outermost = dimensions.front();
  for (std::size_t i = 0; i < outermost.count; ++i, dst += outermost.dst_step, src += outermost.src_step)
    for_each_row(dimensions.subspan(1), row, dst, src);
}

}  // namespace weir::spi
