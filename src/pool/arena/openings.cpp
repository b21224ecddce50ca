// SPDX-License-Identifier: Apache-2.0
// Ranges of addresses: which of them have memory, and which have none.
#include <algorithm>

#include "pool/arena/arena.hpp"
#include "pool/cache/shard.hpp"
#include "weir/spi/paged_segment.hpp"

namespace weir::pool {
namespace {

bool is_bare(const Range& range) noexcept { return range.state == Range::State::bare; }

// Return whether the range can be part of an opening.
bool opens(const Range* range) noexcept {
  return range && (is_bare(*range) || (range->state == Range::State::free && !range->shard));
}

/// Where a request could go: the ranges from `first` to `last`, and addresses behind all memory.
struct Place {
  Range* first = nullptr;
  Range* last = nullptr;
  std::uint64_t lacks = ~std::uint64_t{0};  ///< granules without memory
  std::uint64_t unused = 0;                 ///< granules not needed at the outer end, where `first` or `last` is bare
  bool unused_in_front = false;
  std::uint64_t behind = 0;  ///< granules after `last`, which then is the region's last range
  std::uint64_t held = 0;    ///< granules with memory; of places that lack the same, the most is used up
};

/// Go from `from` in one direction until there are enough granules. Set `place` to the result if that is better. Return
/// false when there are too few granules.
template <Range* Range::*step>
bool reach(Range* from, std::uint64_t granules, std::uint64_t unit, Place& place) noexcept {
  std::uint64_t lacks = 0, held = 0;
  for (Range* range = from; opens(range); range = range->*step) {
    if (is_bare(*range)) lacks += std::min<std::uint64_t>(range->granules, round_up(granules, unit));
    held += is_bare(*range) ? 0 : range->granules;
    if (range->granules < granules) {
      granules -= range->granules;
      continue;
    }
    if (lacks > place.lacks || (lacks == place.lacks && held <= place.held)) return true;
    const bool forward = step == &Range::after;
    place = {forward ? from : range, forward ? range : from, lacks,
             is_bare(*range) ? range->granules - round_up(granules, unit) : 0, !forward, 0, held};
    return true;
  }
  return false;
}

}  // namespace

void Arena::add_addresses(MemoryResource& owner, spi::Block& block) {
  const auto granules = block.segment->size / granule, page = block.segment->paged()->page_bytes / granule;
  const auto middle = granules / 4 / page * page;
  largest_small = page / 2;
  std::list<Region> added;
  for (const bool large : {true, false}) {
    added.emplace_back();
    Region& region = added.back();
    region.self = std::prev(added.end());
    region.block = &block;
    region.owner = &owner;
    region.paged = true;
    region.large = large;
    region.begin = large ? middle : 0;
    region.end = large ? granules : middle;
  }
  regions.splice(regions.begin(), added);
}

std::optional<Arena::Opening> Arena::open(Region& region, std::uint64_t granules, std::uint64_t unit) {
  make_spare(2);
  constexpr std::size_t a_few = 32, all = ~std::size_t{0};  // bare ranges that are looked at, the largest first
  Place best;
  const auto look = [&](std::size_t most) {
    bare_.from_largest(1, [&](Range& bare) {
      if (bare.region == &region) {
        (void)reach<&Range::after>(opens(bare.before) ? bare.before : &bare, granules, unit, best);
        (void)reach<&Range::before>(opens(bare.after) ? bare.after : &bare, granules, unit, best);
      }
      return --most != 0;
    });
  };
  look(a_few);
  if (!reach<&Range::before>(region.last, granules, unit, best)) {
    Range* first = nullptr;
    std::uint64_t held = 0, lacking = 0;
    for (Range* range = region.last; opens(range); range = range->before) {
      first = range;
      held += range->granules;
      if (is_bare(*range)) lacking += range->granules;
    }
    const auto behind = round_up(granules - held, unit);
    const auto end = region.last ? region.last->end() : region.begin;
    if (lacking + behind < best.lacks && behind <= region.end - end) {
      best = {first, region.last, lacking + behind, 0, false, behind, 0};
    }
  }
  if (best.lacks == ~std::uint64_t{0}) look(all);
  if (best.lacks == ~std::uint64_t{0}) return std::nullopt;

  Opening opening;
  std::size_t count = 2;
  for (Range* range = best.first; range && range != best.last; range = range->after) ++count;
  opening.parts.reserve(count);
  if (best.behind != 0) best.last = &add_behind(region, best.behind);
  if (!best.first) best.first = best.last;
  if (best.unused != 0) {
    Range& outer = best.unused_in_front ? *best.first : *best.last;
    bare_.remove(outer);
    Range& rest = split(outer, best.unused_in_front ? best.unused : outer.granules - best.unused);
    if (best.unused_in_front) {
      if (best.last == best.first) best.last = &rest;
      best.first = &rest;
    }
    bare_.insert(outer);
    bare_.insert(rest);
  }
  for (Range* range = best.first;; range = range->after) {
    opening.parts.push_back({range, is_bare(*range)});
    remove(*range);
    make_live(*range);
    if (range == best.last) return opening;
  }
}

Range& Arena::add_behind(Region& region, std::uint64_t granules) noexcept {
  Range& range = take_spare();
  range.segment = region.block->segment;
  range.first = static_cast<std::uint32_t>(region.last ? region.last->end() : region.begin);
  range.offset = region.block->offset + static_cast<std::size_t>(range.first) * granule;
  range.resource = region.owner;
  range.region = &region;
  range.granules = static_cast<std::uint32_t>(granules);
  range.shard = nullptr;
  range.state = Range::State::bare;
  range.before = region.last;
  range.after = nullptr;
  (region.last ? region.last->after : region.first) = &range;
  region.last = &range;
  bare_.insert(range);
  return range;
}

void Arena::close(const Opening& opening, bool has_memory) noexcept {
  for (const auto& [range, bare] : opening.parts) {
    if (bare) range->closed_at(0);
    bare && !has_memory ? strip(*range) : make_free(*range);
  }
}

Range& Arena::lift(Range& range, std::uint64_t begin, std::uint64_t granules, Range*& rest) noexcept {
  everyones.remove(range);
  Range* piece = &range;
  if (begin > range.begin()) {
    piece = &split(range, begin - range.begin());
    everyones.insert(range);
  }
  rest = piece->granules > granules ? &split(*piece, granules) : nullptr;
  if (rest) everyones.insert(*rest);
  make_live(*piece);
  return *piece;
}

void Arena::strip(Range& stripped) noexcept {
  stripped.state = Range::State::bare;
  stripped.shard = nullptr;
  insert_merged(stripped);
  Region& region = *stripped.region;
  Range* const last = region.last;
  if (last->state != Range::State::bare) return;
  bare_.remove(*last);  // addresses behind all memory are no range
  region.last = last->before;
  (region.last ? region.last->after : region.first) = nullptr;
  recycle(*last);
}

}  // namespace weir::pool
