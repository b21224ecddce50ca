// SPDX-License-Identifier: Apache-2.0
// Ranges of addresses: what has memory, and what has none.
#include <algorithm>

#include "pool/arena.hpp"
#include "pool/shard.hpp"

namespace weir::pool {
namespace {

std::uint64_t round_up(std::uint64_t granules, std::uint64_t unit) noexcept {
  return (granules + unit - 1) / unit * unit;
}

// Of a neighbour of bare addresses that any stream may have.
std::uint64_t free_granules(const Range* range) noexcept {
  return range && range->state == Range::State::free && !range->shard ? range->granules : 0;
}

}  // namespace

void Arena::add_addresses(MemoryResource& owner, spi::Block& block) {
  regions.emplace_front();
  Region& region = regions.front();
  region.self = regions.begin();
  region.block = &block;
  region.owner = &owner;
  region.paged = true;
}

std::optional<Arena::Opening> Arena::open(Region& region, std::uint64_t granules, std::uint64_t unit,
                                          std::uint64_t capacity) {
  make_spare(1);
  Range* best = nullptr;
  std::uint64_t least = ~std::uint64_t{0};
  bare_.for_each([&](Range& bare) {
    const auto front = free_granules(bare.before);
    if (front + bare.granules + free_granules(bare.after) < granules) return;
    const auto needed = std::min<std::uint64_t>(bare.granules, round_up(granules - front, unit));
    if (needed > least || (needed == least && bare.granules >= best->granules)) return;
    best = &bare;
    least = needed;
  });
  const auto end = region.last ? region.last->end() : 0;
  const auto needed_at_end = round_up(granules - free_granules(region.last), unit);
  if (needed_at_end < least && needed_at_end <= capacity - end) {
    best = &take_spare();
    best->segment = region.block->segment;
    best->offset = static_cast<std::size_t>(end) * granule;
    best->resource = region.owner;
    best->region = &region;
    best->granules = static_cast<std::uint32_t>(needed_at_end);
    best->before = region.last;
    best->after = nullptr;
    (region.last ? region.last->after : region.first) = best;
    region.last = best;
  } else if (best) {
    bare_.remove(*best);
    if (best->granules > least) bare_.insert(split(*best, least));
  } else {
    return std::nullopt;
  }
  best->state = Range::State::live;
  Opening opening{nullptr, best, nullptr};
  const auto take = [&](Range* neighbour) {
    everyones.remove(*neighbour);
    neighbour->state = Range::State::live;
    return neighbour;
  };
  const auto front = free_granules(best->before);
  if (front != 0) opening.front = take(best->before);
  if (front + best->granules < granules) opening.back = take(best->after);
  return opening;
}

void Arena::close(const Opening& opening, bool has_memory) noexcept {
  Range& range = *opening.bare;
  range.shard = nullptr;
  range.closed_at(0);
  if (has_memory) {
    put(range);
  } else {
    strip(range);
  }
  if (opening.front) put(*opening.front);
  if (opening.back) put(*opening.back);
}

void Arena::lift(Range& range, const std::vector<Piece>& pieces, std::vector<Range*>& lifted) noexcept {
  everyones.remove(range);
  Range* rest = &range;
  for (const Piece& piece : pieces) {
    if (piece.begin > rest->begin()) {
      Range& front = *rest;
      rest = &split(front, piece.begin - front.begin());
      everyones.insert(front);
    }
    Range& lifts = *rest;
    rest = lifts.granules > piece.granules ? &split(lifts, piece.granules) : nullptr;
    lifts.state = Range::State::live;
    lifted.push_back(&lifts);
  }
  if (rest) everyones.insert(*rest);
}

void Arena::strip(Range& stripped) noexcept {
  stripped.state = Range::State::bare;
  stripped.shard = nullptr;
  insert_merged(stripped);
  Region& region = *stripped.region;
  Range* const last = region.last;
  if (last->state != Range::State::bare) return;
  bare_.remove(*last);  // addresses after all memory are no range
  region.last = last->before;
  (region.last ? region.last->after : region.first) = nullptr;
  recycle(*last);
}

}  // namespace weir::pool
