// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which addresses of a paged segment have memory, and in which pages. Nothing here looks at buffers: arena.hpp does.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "pool/arena/size_class.hpp"
#include "weir/spi/paged_segment.hpp"

namespace weir::pool {

/// Everything is in granules, counted from the beginning of the segment. Pages begin and end at multiples of `unit`.
/// Only the one thread that changes the pool's size uses the table.
class PageTable {
 public:
  struct Page {
    std::uint64_t begin = 0, granules = 0;
  };

  explicit PageTable(spi::PagedSegment& segment) noexcept;

  const std::uint64_t unit;      ///< granules of the smallest page

  /// Call `function` on the pages that are wholly inside [begin, end), in order, until it returns false.
  template <class F>
  void inside(std::uint64_t begin, std::uint64_t end, F function) const {
    const auto last = std::min<std::uint64_t>(end / unit, units_.size());
    for (auto at = (begin + unit - 1) / unit; at < last;) {
      const std::uint64_t units = units_[at];
      if (units != 0 && at + units <= last && !function(Page{at * unit, units * unit})) return;
      at += std::max<std::uint64_t>(units, 1);
    }
  }
  /// Put a page of new memory at `begin`, as PagedSegment::add_page does.
  bool add(std::uint64_t begin, std::uint64_t granules, Shortage& shortage);
  /// Move a page to `to`. If this throws, the page is where it was.
  void move(const Page& page, std::uint64_t to);
  void end(const Page& page) noexcept;

 private:
  void make_room(std::uint64_t end);

  spi::PagedSegment& segment_;
  std::vector<std::uint32_t> units_;  // size of the page that begins at each unit; 0 where none does
};

}  // namespace weir::pool
