// SPDX-License-Identifier: Apache-2.0
#include "pool/pages.hpp"

#include <algorithm>

namespace weir::pool {

PageTable::PageTable(spi::PagedSegment& segment) noexcept
    : unit(segment.page_bytes / granule), segment_(segment) {}

void PageTable::inside(std::uint64_t begin, std::uint64_t end, std::uint64_t most, std::vector<Page>& found) const {
  const auto last = std::min<std::uint64_t>(end / unit, units_.size());
  std::uint64_t sum = 0;
  for (auto at = (begin + unit - 1) / unit; at < last && sum < most;) {
    const std::uint64_t units = units_[at];
    if (units != 0 && at + units <= last) {
      found.push_back({at * unit, units * unit});
      sum += units * unit;
    }
    at += std::max<std::uint64_t>(units, 1);
  }
}

bool PageTable::add(std::uint64_t begin, std::uint64_t granules, Shortage& shortage) {
  make_room(begin);
  if (!segment_.add_page(begin * granule, granules * granule, shortage)) return false;
  units_[begin / unit] = static_cast<std::uint32_t>(granules / unit);
  return true;
}

void PageTable::move(const Page& page, std::uint64_t to) {
  make_room(to);
  segment_.move_page(page.begin * granule, to * granule);
  units_[page.begin / unit] = 0;
  units_[to / unit] = static_cast<std::uint32_t>(page.granules / unit);
}

void PageTable::end(const Page& page) noexcept {
  segment_.end_page(page.begin * granule);
  units_[page.begin / unit] = 0;
}

void PageTable::make_room(std::uint64_t begin) {
  const auto needed = begin / unit + 1;
  if (units_.size() < needed) units_.resize(std::max<std::size_t>(needed, 2 * units_.size()));
}

}  // namespace weir::pool
