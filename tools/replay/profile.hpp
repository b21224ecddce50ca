// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory over time: what was live and what was reserved after each operation. This takes a pass of its own, which is
// not timed.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "replay/trace.hpp"
#include "weir/memory_resource.hpp"

namespace weir::replay {

/// The least and the most of some values.
struct Band {
  std::uint64_t low = 0, high = 0;
};

/// One column of a picture: the operations from `begin` up to, but not including, `end`.
struct Column {
  std::size_t begin = 0, end = 0;
  Band live;      ///< bytes asked for
  Band reserved;  ///< bytes
  Band segments;  ///< count: the pool's segments; without a pool, the plain resource's live buffers
};

struct Profile {
  std::vector<Column> columns;
  bool has_segments = false;  ///< there is a pool
  std::size_t failures = 0;   ///< operations that failed in this pass
};

/// Play `trace` on `resource`, which should be new, on one thread, and look at the memory after every operation. Makes
/// at most `columns` columns, fewer for shorter traces. Closes everything at the end.
[[nodiscard]] Profile profile(const Trace& trace, const ResourcePtr& resource, std::size_t columns);

}  // namespace weir::replay
