// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory over time: what was live and what was reserved after each operation. A pass of its own, which is not
// timed.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "replay/trace.hpp"
#include "weir/memory_resource.hpp"

namespace weir::replay {

/// Least and most of some values.
struct Band {
  std::uint64_t low = 0, high = 0;
};

/// One column of a picture: operations `begin` up to `end`, exclusively.
struct Column {
  std::size_t begin = 0, end = 0;
  Band live;      ///< bytes asked for
  Band reserved;  ///< bytes
  Band segments;  ///< count: of the pool's, else the live buffers of the plain resource
};

struct Profile {
  std::vector<Column> columns;
  bool has_segments = false;  ///< there is a pool
  std::size_t failures = 0;   ///< operations that failed in this pass
};

/// Play `trace` on `resource`, which should be new, by one thread, and look after every operation. At most
/// `columns` columns; fewer for shorter traces. Closes everything again.
[[nodiscard]] Profile profile(const Trace& trace, const ResourcePtr& resource, std::size_t columns);

}  // namespace weir::replay
