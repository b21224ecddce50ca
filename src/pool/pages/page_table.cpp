// SPDX-License-Identifier: Apache-2.0
#include "pool/pages/page_table.hpp"

#include <algorithm>

namespace weir::pool {

PageTable::PageTable(spi::PagedSegment& segment) noexcept
    : unit(segment.page_bytes / granule), segment_(segment) {}

bool PageTable::add(std::uint64_t begin, std::uint64_t granules, Shortage& shortage) {
  make_room(begin + granules);
  if (!segment_.add_page(begin * granule, granules * granule, shortage)) return false;
  units_[begin / unit] = static_cast<std::uint32_t>(granules / unit);
  return true;
}

void PageTable::move(const Page& page, std::uint64_t to) {
  make_room(to + page.granules);
  segment_.forget_shared(page.begin * granule);
  segment_.move_page(page.begin * granule, to * granule);
  units_[page.begin / unit] = 0;
  units_[to / unit] = static_cast<std::uint32_t>(page.granules / unit);
}

void PageTable::end(const Page& page) noexcept {
  segment_.forget_shared(page.begin * granule);
  segment_.end_page(page.begin * granule);
  units_[page.begin / unit] = 0;
}

// Everything up to there can be asked for afterwards, the whole of the last page too.
void PageTable::make_room(std::uint64_t end) {
  const auto needed = end / unit;
  if (units_.size() < needed) units_.resize(std::max<std::size_t>(needed, 2 * units_.size()));
}

}  // namespace weir::pool
