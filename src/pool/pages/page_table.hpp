// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which addresses of a paged region have memory, and in what pieces. Nothing here looks at buffers: arena.hpp does.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "pool/arena/size_class.hpp"
#include "weir/spi/paged_segment.hpp"

namespace weir::pool {

/// All in granules, counted from the region's first; places of pages are multiples of `unit`. Used by the one thread that
/// changes the pool's size.
class PageTable {
 public:
  struct Page {
    std::uint64_t begin = 0, granules = 0;
  };

  explicit PageTable(spi::PagedSegment& segment) noexcept;

  const std::uint64_t unit;      ///< of the smallest page

  /// Call `function` on the pages that lie inside [begin, end) as a whole, in order, until it returns false.
  template <class F>
  void inside(std::uint64_t begin, std::uint64_t end, F function) const {
    const auto last = std::min<std::uint64_t>(end / unit, units_.size());
    for (auto at = (begin + unit - 1) / unit; at < last;) {
      const std::uint64_t units = units_[at];
      if (units != 0 && at + units <= last && !function(Page{at * unit, units * unit})) return;
      at += std::max<std::uint64_t>(units, 1);
    }
  }
  /// Put new memory there; as PagedSegment::add_page.
  bool add(std::uint64_t begin, std::uint64_t granules, Shortage& shortage);
  /// Throws, and then the page is where it was.
  void move(const Page& page, std::uint64_t to);
  void end(const Page& page) noexcept;

 private:
  void make_room(std::uint64_t begin);

  spi::PagedSegment& segment_;
  std::vector<std::uint32_t> units_;  // of the page that begins at each unit; 0 where none does
};

}  // namespace weir::pool
