// SPDX-License-Identifier: Apache-2.0
#include "memory/shared_places.hpp"

#include <algorithm>

namespace weir::detail {

void SharedPlaces::add_page(std::uint64_t id, std::size_t begin, std::size_t end) {
  any_.store(true, std::memory_order_relaxed);
  const auto [page, added] = pages_.try_emplace(begin, Page{id, end});
  if (!added) return;  // known: a page is forgotten before another is there
  try {
    begins_.try_emplace(id, begin);
  } catch (...) {
    pages_.erase(page);
    throw;
  }
}

spi::Ref<spi::Segment> SharedPlaces::find_run(std::size_t begin, std::size_t end) const {
  const auto known = places_.find({begin, end});
  return known == places_.end() ? spi::Ref<spi::Segment>() : known->second->segment;
}

spi::Ref<spi::Segment> SharedPlaces::add_run(std::uint64_t id, std::size_t begin, std::size_t end,
                                             spi::Ref<spi::Segment> segment) {
  any_.store(true, std::memory_order_relaxed);
  Runs one;
  one.push_back({id, begin, end, std::move(segment)});
  const auto place = places_.try_emplace({begin, end}, one.begin()).first;
  try {
    begins_.try_emplace(id, begin);
  } catch (...) {
    places_.erase(place);
    throw;
  }
  runs_.splice(runs_.end(), one);
  longest_ = std::max(longest_, end - begin);
  return runs_.size() > most_runs ? drop(runs_.begin()) : spi::Ref<spi::Segment>();
}

void SharedPlaces::forget_page(std::size_t offset) noexcept {
  const auto behind = pages_.upper_bound(offset);
  if (behind == pages_.begin()) return;
  const auto page = std::prev(behind);
  if (page->second.end <= offset) return;
  begins_.erase(page->second.id);
  pages_.erase(page);
}

spi::Ref<spi::Segment> SharedPlaces::forget_run(std::size_t offset) noexcept {
  const std::size_t first = offset - std::min(offset, longest_);
  for (auto at = places_.lower_bound({first, 0}); at != places_.end() && at->first.first <= offset; ++at) {
    if (at->first.second > offset) return drop(at->second);
  }
  return {};
}

std::optional<std::size_t> SharedPlaces::find(std::uint64_t id) const noexcept {
  const auto known = begins_.find(id);
  return known == begins_.end() ? std::nullopt : std::optional(known->second);
}

spi::Ref<spi::Segment> SharedPlaces::drop(Runs::iterator run) noexcept {
  auto segment = std::move(run->segment);
  begins_.erase(run->id);
  places_.erase({run->begin, run->end});
  runs_.erase(run);
  return segment;
}

}  // namespace weir::detail
