// SPDX-License-Identifier: Apache-2.0
#include "pool/arena/arena.hpp"

#include <algorithm>
#include <utility>

#include "pool/cache/shard.hpp"

namespace weir::pool {

std::uint64_t Region::address() const noexcept {
  const spi::Segment& segment = *block->segment;
  const auto base = segment.address ? segment.address : reinterpret_cast<std::uint64_t>(segment.host);
  return base + block->offset;
}

void Arena::add(MemoryResource& owner, spi::Block& block, bool large, Shard* shard, std::uint64_t closed_at) {
  make_spare(1);
  regions.emplace_front();
  Region& region = regions.front();
  region.self = regions.begin();
  region.block = &block;
  region.owner = &owner;
  region.large = large;
  bytes += block.size;
  Range& range = take_spare();
  range.segment = block.segment;
  range.offset = block.offset;
  range.resource = &owner;
  range.region = &region;
  range.first = 0;
  range.granules = static_cast<std::uint32_t>(block.size / granule);
  range.shard = shard;
  range.closed_at(closed_at);
  range.before = range.after = nullptr;
  region.first = region.last = &range;
  make_free(range);
}

spi::Block& Arena::remove(Region& region) noexcept {
  spi::Block& block = *region.block;
  unlist_unused(region);
  everyones.remove(*region.first);
  recycle(*region.first);
  bytes -= block.size;
  regions.erase(region.self);
  return block;
}

Range* Arena::cut(FreeRanges& index, std::uint64_t granules, std::size_t alignment, RangeIndex::Search search,
                  bool large) {
  return cut_from(index, granules, alignment, search, large);
}

Range* Arena::cut(PendingRanges& index, std::uint64_t granules, std::size_t alignment, RangeIndex::Search search,
                  bool large) {
  return cut_from(index, granules, alignment, search, large);
}

template <class Index>
Range* Arena::cut_from(Index& index, std::uint64_t granules, std::size_t alignment, RangeIndex::Search search,
                       bool large) {
  make_spare(2);
  const std::uint64_t slack = alignment > granule ? alignment / granule - 1 : 0;
  const bool whole = large && !regions.front().paged;
  Range* range = whole ? index.take_whole(granules + slack) : index.take(granules + slack, search, large);
  if (!range && whole) range = index.take(granules + slack, search, false);
  if (!range) return nullptr;
  if (range->region->listed_unused) unlist_unused(*range->region);
  const bool all_of_it = whole && range->region->large;
  if (slack != 0) {
    const auto address = range->region->address() + range->begin() * granule;
    const auto in_front = ((0 - address) & (alignment - 1)) / granule;
    if (in_front != 0) {
      Range& front = *range;
      range = &split(front, in_front);
      index.insert(front);
    }
  }
  if (!all_of_it && range->granules > granules) index.insert(split(*range, granules));
  make_live(*range);
  return range;
}

void Arena::make_free(Range& range) noexcept {
  range.state = Range::State::free;
  insert_merged(range);
}

void Arena::insert_merged(Range& inserted) noexcept {
  Range* range = &inserted;
  if (merges(range->before, range)) {
    Range& left = *range->before;
    remove(left);
    join(left, *range);
    range = &left;
  }
  if (merges(range, range->after)) {
    Range& right = *range->after;
    remove(right);
    join(*range, right);
  }
  insert(*range);
}

void Arena::clear(Range& range) noexcept {
  remove(range);
  range.shard = nullptr;
  make_free(range);
}

void Arena::insert(Range& range) noexcept {
  if (range.state == Range::State::bare) return bare_.insert(range);
  if (range.shard) return range.shard->pending->insert(range);
  everyones.insert(range);
  ++freed;
  if (range.region->unused()) list_unused(*range.region);
}

void Arena::remove(Range& range) noexcept {
  if (range.state == Range::State::bare) return bare_.remove(range);
  if (range.shard) return range.shard->pending->remove(range);
  everyones.remove(range);
}

void Arena::make_live(Range& range) noexcept {
  range.state = Range::State::live;
  range.cache = nullptr;
}

void Arena::list_unused(Region& region) noexcept {
  region.listed_unused = true;
  unused_.insert(region);
}

void Arena::unlist_unused(Region& region) noexcept {
  region.listed_unused = false;
  unused_.remove(region);
}

bool Arena::merges(const Range* left, const Range* right) const noexcept {
  return left && right && left->state == right->state && left->shard == right->shard &&
         (left->state == Range::State::free || left->state == Range::State::bare);
}

// Join two ranges that are in no index. The later of their two values holds for the whole.
void Arena::join(Range& left, Range& right) noexcept {
  left.closed_at(std::max(left.closed_at(), right.closed_at()));
  left.granules = static_cast<std::uint32_t>(left.granules + right.granules);
  left.after = right.after;
  (left.after ? left.after->before : left.region->last) = &left;
  recycle(right);
}

// Leave `granules` in `range`. What follows becomes another range of the same sort, which is returned.
Range& Arena::split(Range& range, std::uint64_t granules) noexcept {
  Range& rest = take_spare();
  rest.segment = range.segment;
  rest.offset = range.region->block->offset + static_cast<std::size_t>(range.begin() + granules) * granule;
  rest.resource = range.resource;
  rest.region = range.region;
  rest.first = range.first + static_cast<std::uint32_t>(granules);
  rest.granules = static_cast<std::uint32_t>(range.granules - granules);
  rest.shard = range.shard;
  rest.state = range.state;
  rest.closed_at(range.closed_at());
  rest.before = &range;
  rest.after = range.after;
  (rest.after ? rest.after->before : rest.region->last) = &rest;
  range.after = &rest;
  range.granules = static_cast<std::uint32_t>(granules);
  return rest;
}

void Arena::make_slabs(std::size_t count) {
  while (spare_count_ < count) {
    auto& slab = slabs_.emplace_back(std::clamp<std::size_t>(ranges_ / 8, 32, 256));
    ranges_ += slab.size();
    for (std::size_t i = slab.size(); i != 0; --i) recycle(slab[i - 1]);  // so the slab's first is taken first
  }
}

Range& Arena::take_spare() noexcept {
  Range* const range = spare_;
  spare_ = static_cast<Range*>(range->next);
  --spare_count_;
  range->next = nullptr;
  return *range;
}

void Arena::recycle(Range& range) noexcept {
  range.next = spare_;
  spare_ = &range;
  ++spare_count_;
}

}  // namespace weir::pool
