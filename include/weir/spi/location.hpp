// SPDX-License-Identifier: Apache-2.0
#pragma once
// A place in memory, for backends: which segment, and where in it.

#include "weir/fwd.hpp"

namespace weir::spi {

/// A place inside a segment.
struct Location {
  Segment* segment = nullptr;  ///< null for zero bytes
  std::size_t offset = 0;  ///< from byte 0 of the segment
};

}  // namespace weir::spi
