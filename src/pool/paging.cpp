// SPDX-License-Identifier: Apache-2.0
// Growth of a paged pool: memory that lies idle elsewhere is moved to where it is needed before new memory is made. The
// driver is asked without the lock, by one thread at a time.
#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

#include "pool/core.hpp"

namespace weir::pool {
namespace {

using Page = PageTable::Page;

// A driver needs some 20 microseconds for a page, whatever its size. Hence larger requests get larger pages, and not
// everything that is idle is moved for them.
constexpr std::uint64_t pages_per_request = 128;
constexpr std::size_t everything = std::numeric_limits<std::size_t>::max();

}  // namespace

// Memory that is free for every stream, out of everybody's sight, in pages of at most `granules` together. Small ranges
// are robbed first.
Core::Lifted Core::lift(std::uint64_t granules, std::size_t most) {
  std::vector<std::pair<Range*, std::vector<Arena::Piece>>> chosen;
  Lifted lifted;
  std::vector<Page> inside;
  arena_.everyones.for_each([&](Range& range) {
    if (range.granules < pages_->unit || granules == 0 || lifted.pages.size() == most) return;
    inside.clear();
    pages_->inside(range.begin(), range.end(), inside);
    std::vector<Arena::Piece> pieces;
    for (const Page& page : inside) {
      if (page.granules > granules || lifted.pages.size() == most) continue;
      granules -= page.granules;
      pieces.push_back({page.begin, page.granules});
      lifted.pages.push_back(page);
    }
    if (!pieces.empty()) chosen.emplace_back(&range, std::move(pieces));
  });
  lifted.ranges.reserve(lifted.pages.size());
  arena_.make_spare(2 * lifted.pages.size());
  for (const auto& [range, pieces] : chosen) arena_.lift(*range, pieces, lifted.ranges);
  return lifted;
}

// Give memory at [begin, end) out of `lifted`, the rest new. False when there is none, and then none is there.
bool Core::back(std::uint64_t begin, std::uint64_t end, Lifted& lifted, Shortage& shortage) {
  std::vector<Page> placed;
  const auto undo = [&] {
    for (const Page& page : placed) pages_->end(page);
  };
  placed.reserve(lifted.pages.size() + pages_per_request + 1);
  const auto each = (end - begin + pages_per_request * pages_->unit - 1) / (pages_per_request * pages_->unit);
  auto at = begin;
  try {
    for (const Page& page : lifted.pages) {
      pages_->move(page, at);
      placed.push_back({at, page.granules});
      at += page.granules;
      ++lifted.gone;
    }
    while (at != end) {
      const auto granules = std::min(each * pages_->unit, end - at);
      if (!pages_->add(at, granules, shortage)) {
        undo();
        return false;
      }
      placed.push_back({at, granules});
      at += granules;
    }
  } catch (...) {
    undo();
    throw;
  }
  return true;
}

bool Core::add_pages(std::uint64_t granules, Lock& lock, Shortage& shortage) {
  const Growing growing(*this, lock);
  for (const std::size_t most : {std::size_t{pages_per_request}, everything}) {
    const auto opening = arena_.open(*paged_, granules, pages_->unit, pages_->capacity);
    if (!opening) return false;
    const Range& bare = *opening->bare;
    Lifted lifted;
    try {
      lifted = lift(bare.granules, most);
    } catch (...) {
      arena_.close(*opening, false);
      throw;
    }
    const auto bytes = [](const std::vector<Page>& pages, std::size_t count) {
      std::size_t sum = 0;
      for (std::size_t i = 0; i < count; ++i) sum += static_cast<std::size_t>(pages[i].granules) * granule;
      return sum;
    };
    const auto added = bare.bytes() - bytes(lifted.pages, lifted.pages.size());
    bool backed = false;
    std::exception_ptr refused;
    if (added <= limit_ - std::min(limit_, arena_.bytes)) {
      lock.unlock();
      try {
        backed = back(bare.begin(), bare.end(), lifted, shortage);
      } catch (...) {
        refused = std::current_exception();
      }
      lock.lock();
    } else {
      shortage.limit = limit_;
    }
    const auto gone = bytes(lifted.pages, lifted.gone);
    for (std::size_t i = 0; i < lifted.ranges.size(); ++i) {
      i < lifted.gone ? arena_.strip(*lifted.ranges[i]) : arena_.put(*lifted.ranges[i]);
    }
    arena_.bytes = backed ? arena_.bytes + added : arena_.bytes - gone;
    arena_.close(*opening, backed);
    if (refused) std::rethrow_exception(refused);
    if (!backed) continue;
    ++grows_;
    moved_ += lifted.gone;
    peak_reserved_ = std::max(peak_reserved_, arena_.bytes);
    shortage = {};
    return true;
  }
  return false;
}

// Give free memory back until at most `bytes_to_keep` are in no buffer.
void Core::end_pages(std::size_t bytes_to_keep, Lock& lock) {
  while (growing_) grown_.wait(lock);
  const Growing growing(*this, lock);
  const auto used = in_use();
  const auto idle = arena_.bytes - std::min(arena_.bytes, used);
  if (idle <= bytes_to_keep) return;
  const Lifted lifted = lift((idle - bytes_to_keep) / granule, everything);
  lock.unlock();
  for (const Page& page : lifted.pages) pages_->end(page);
  lock.lock();
  for (const Page& page : lifted.pages) arena_.bytes -= static_cast<std::size_t>(page.granules) * granule;
  for (Range* range : lifted.ranges) arena_.strip(*range);
  given_back_ += lifted.pages.size();
}

}  // namespace weir::pool
