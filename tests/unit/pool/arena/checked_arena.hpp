// SPDX-License-Identifier: Apache-2.0
#pragma once
// An arena and its model do the same steps, and are compared after each. What the steps are, a function of
// numbers says: random ones in arena_test.cpp, a fuzzer's in fuzz/arena_fuzz.cpp.

#include <algorithm>
#include <deque>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "arena_model.hpp"
#include "pool/arena/arena.hpp"
#include "pool/pool_resource.hpp"
#include "weir/host.hpp"
#include "weir/spi/paged_segment.hpp"

namespace weir::pool {

/// Addresses that nobody reads or writes.
class Nowhere final : public spi::PagedSegment {
 public:
  Nowhere(std::uint64_t at, std::size_t bytes, std::size_t page) {
    device = &host_device().state();
    address = at;
    size = bytes;
    page_bytes = page;
  }
  bool add_page(std::size_t, std::size_t, Shortage&) override {
    throw Disagreement("an arena asks for no memory");
  }
  void move_page(std::size_t, std::size_t) override { throw Disagreement("an arena moves no memory"); }
  void end_page(std::size_t) noexcept override {}
};

class CheckedArena {
 public:
  enum class Over { segments, addresses };
  using Below = std::function<std::uint64_t(std::uint64_t)>;  ///< a number below its argument

  explicit CheckedArena(Over over) {
    shard_.pending = std::make_unique<PendingRanges>();
    if (over == Over::segments) {
      arena_.largest_small = 64;
      for (const std::uint64_t granules : {64U, 64U, 192U}) add(granules, false);
      for (const std::uint64_t granules : {96U, 160U}) add(granules, true);
      return;
    }
    arena_.add_addresses(*resource_, block_of(addresses));
    model_.emplace(&arena_.addresses(false), Intervals::of_addresses(0, addresses / 4, false));
    model_.emplace(&arena_.addresses(true), Intervals::of_addresses(addresses / 4, addresses, true));
  }
  ~CheckedArena() {
    for (auto& block : blocks_) block.segment->release();
  }
  CheckedArena(const CheckedArena&) = delete;
  CheckedArena& operator=(const CheckedArena&) = delete;

  /// Do one of all steps, and compare.
  void step(const Below& below) {
    const auto what = below(16);
    if (what < 6) {
      cut(below);
    } else if (what < 10) {
      if (!live_.empty()) put(below(live_.size()), below(2) == 0, below(100));
    } else if (what < 12) {
      clear(below);
    } else if (pages()) {
      if (what < 14)
        opening_ ? settle_opening(below(2) == 0) : open(below);
      else
        lifted_.empty() ? lift(below) : settle_lifted(below(3) != 0);
    } else if (what < 14) {
      renew(below(5));
    }
    compare();
  }
  /// Everything is closed, and no stream uses it: a region is one range, or addresses without any.
  void end() {
    settle_lifted(true);
    if (opening_) settle_opening(false);
    while (!live_.empty()) put(0, false, 0);
    clear([](std::uint64_t) { return 0; });
    compare();
    if (!pages()) {
      for (const Region& region : arena_.regions) agree(region.unused(), "a region is not whole in the end");
      return;
    }
    std::vector<Range*> free;
    arena_.everyones.for_each([&](Range& range) { free.push_back(&range); });
    for (Range* const range : free) lift_from(*range, range->begin(), range->granules);
    settle_lifted(true);
    compare();
    for (const Region& region : arena_.regions) agree(!region.first, "addresses are left in the end");
  }

 private:
  static constexpr std::uint64_t unit = 16, addresses = 64 * unit;
  static std::uint64_t first_of(const Range& range) { return range.begin(); }
  [[nodiscard]] bool pages() const { return arena_.regions.front().paged; }
  Intervals& of(const Range& range) { return model_.at(range.region); }

  spi::Block& block_of(std::uint64_t granules) {
    spi::Block& block = blocks_.emplace_back();
    const auto count = blocks_.size();  // not all aligned alike
    block.segment =
        new Nowhere((std::uint64_t{count} << 30) + count * granule, granules * granule, unit * granule);
    block.size = granules * granule;
    return block;
  }
  void add(std::uint64_t granules, bool large) {
    arena_.add(*resource_, block_of(granules), large, nullptr, 0);
    model_.emplace(&arena_.regions.front(), Intervals::of_memory(granules, large));
  }
  /// A region goes and comes back, if nobody uses it.
  void renew(std::uint64_t which) {
    Region& region = *std::next(arena_.regions.begin(), static_cast<std::ptrdiff_t>(which));
    const Intervals& known = model_.at(&region);
    agree(region.unused() == (known.largest(Intervals::everyones) == known.end),
          "whether a region is unused");
    if (!region.unused()) return;
    const auto granules = known.end;
    const bool large = known.large;
    const auto before = arena_.bytes;
    spi::Block* const block = region.block;
    model_.erase(&region);
    agree(&arena_.remove(region) == block, "another block came out");
    agree(arena_.bytes == before - block->size, "bytes of a region that went");
    add(granules, large);
  }

  void cut(const Below& below) {
    const bool own = below(3) == 0;
    const auto wanted = some_granules(below);
    const std::size_t alignment = granule << (below(4) == 0 ? below(5) : 0);
    const auto needed = granules_with_slack(wanted, alignment);
    const bool large = needed > arena_.largest_small || (pages() && below(8) == 0);
    const auto search = below(4) == 0 ? RangeIndex::Search::quick : RangeIndex::Search::thorough;
    const auto sort = own ? Intervals::of_shard : Intervals::everyones;
    const bool whole = large && !pages();
    const auto most = whole ? needed + needed / 8 : ~std::uint64_t{0};
    Range* const range = own ? arena_.cut(*shard_.pending, wanted, alignment, search, large)
                             : arena_.cut(arena_.everyones, wanted, alignment, search, large);
    if (!range) {
      bool some = false, others = false, of_others = false;
      for (const auto& [region, known] : model_) {
        for (const auto& [first, piece] : known.pieces) {
          if (piece.sort != sort || piece.granules < needed) continue;
          if (known.large == large) (piece.granules <= most ? some : others) = true;
          if (!known.large) of_others = true;
        }
      }
      // A quick search may overlook some of the request's own class, a large request takes what fits or
      // nothing of its own sort.
      agree(!some || others || (search == RangeIndex::Search::quick && !whole), "what there is was not found");
      return agree(!whole || !of_others || search == RangeIndex::Search::quick, "what small ones left was not found");
    }
    const bool all_of_it = whole && range->region->large;
    agree(all_of_it ? range->granules >= wanted && range->granules <= most : range->granules == wanted,
          "its size");
    agree(whole || range->region->large == large, "of the other sort of region");
    agree((range->region->address() + first_of(*range) * granule) % alignment == 0, "its alignment");
    const auto was = of(*range).take(first_of(*range), range->granules);
    agree(was.sort == sort, "of another owner");
    agree(!own || range->closed_at() == was.closed_at, "the last use of what was cut is forgotten");
    agree(range->offset == range->region->block->offset + first_of(*range) * granule, "where a buffer begins");
    live_.push_back(range);
    range->offset += granule;  // its resource may give out a part of it
    range->size = 1;
  }
  /// Often just below, at, or just above a power of two.
  static std::uint64_t some_granules(const Below& below) {
    if (below(2) == 0) return 1 + below(below(4) == 0 ? 160 : 24);
    const auto power = std::uint64_t{1} << below(8);
    return std::clamp<std::uint64_t>(power + below(5), 3, 162) - 2;
  }
  void put(std::size_t which, bool to_shard, std::uint64_t closed_at) {
    Range& range = *std::exchange(live_[which], live_.back());
    live_.pop_back();
    range.offset -= granule;
    of(range).give(first_of(range), to_shard ? Intervals::of_shard : Intervals::everyones, closed_at);
    range.shard = to_shard ? &shard_ : nullptr;
    range.closed_at(closed_at);
    arena_.make_free(range);
  }
  /// As a flush does: what the stream is done with, while the index is walked.
  void clear(const Below& below) {
    shard_.pending->for_each([&](Range& range) {
      if (below(2) != 0) return;
      of(range).clear(first_of(range));
      arena_.clear(range);
    });
  }

  void open(const Below& below) {
    const bool large = below(2) == 0;
    const auto granules = below(2) == 0 ? some_granules(below) : 1 + below(large ? 20 * unit : 6 * unit);
    Region& region = arena_.addresses(large);
    Intervals& known = model_.at(&region);
    const bool must = known.opens(granules, unit);
    opening_ = arena_.open(region, granules, unit);
    if (!opening_) return agree(!must, "an opening was not found");
    std::uint64_t held = 0, lacks = 0;
    const Range* before = nullptr;
    for (const auto& [range, bare] : opening_->parts) {
      agree(range->region == &region && (!before || before->after == range), "parts that are no neighbours");
      before = range;
      (bare ? lacks : held) += range->granules;
      if (bare)
        agree(range->begin() % unit == 0 && range->granules % unit == 0, "a part that pages cannot fill");
      if (range->begin() == known.used_end()) {
        agree(bare, "memory behind all memory");
        known.extend(range->begin(), range->granules);
      } else {
        const auto was = known.take(range->begin(), range->granules);
        agree(was.sort == (bare ? Intervals::bare : Intervals::everyones), "a part that is no such");
      }
    }
    agree(held + lacks >= granules, "the opening is too small");
    agree(lacks <= (granules + unit - 1) / unit * unit, "the opening needs more memory than the request");
  }
  void settle_opening(bool has_memory) {
    settle_lifted(true);  // in the pool's order
    for (const auto& [range, bare] : opening_->parts) {
      of(*range).give(range->begin(), bare && !has_memory ? Intervals::bare : Intervals::everyones,
                      bare ? 0 : range->closed_at());
    }
    arena_.close(*opening_, has_memory);
    opening_.reset();
  }
  /// Whole pages of a range that is everyone's.
  void lift(const Below& below) {
    std::vector<Range*> idle;
    arena_.everyones.for_each([&](Range& range) {
      if ((range.begin() + unit - 1) / unit < range.end() / unit) idle.push_back(&range);
    });
    if (idle.empty()) return;
    Range& range = *idle[below(idle.size())];
    const auto from = (range.begin() + unit - 1) / unit, to = range.end() / unit;
    const auto first = from + below(to - from);
    lift_from(range, first * unit, (1 + below(to - first)) * unit);
  }
  void lift_from(Range& range, std::uint64_t begin, std::uint64_t granules) {
    const auto end = range.end();
    arena_.make_spare(2);
    Range* rest = nullptr;
    Range& lifted = arena_.lift(range, begin, granules, rest);
    agree(lifted.begin() == begin && lifted.granules == granules, "not what was to be lifted");
    agree(rest ? rest->begin() == begin + granules && rest->end() == end : begin + granules == end,
          "what follows it");
    (void)of(lifted).take(begin, granules);
    lifted_.push_back(&lifted);
  }
  void settle_lifted(bool strip) {
    for (Range* const range : lifted_) {
      of(*range).give(range->begin(), strip ? Intervals::bare : Intervals::everyones, range->closed_at());
      strip ? arena_.strip(*range) : arena_.make_free(*range);
    }
    lifted_.clear();
  }

  /// The arena's lists by address are the model's pieces, and each free one is where it belongs.
  void compare() {
    std::size_t free = 0, cached = 0, expected_free = 0, expected_cached = 0;
    arena_.everyones.for_each([&](const Range& range) { free += range.shard == nullptr ? 1 : 1000; });
    shard_.pending->for_each([&](const Range& range) { cached += range.shard == &shard_ ? 1 : 1000; });
    std::uint64_t largest = 0, largest_unused = 0;
    for (const auto& [region, known] : model_) {
      const Range *range = region->first, *before = nullptr;
      auto last_sort = Intervals::live;
      for (const auto& [first, piece] : known.pieces) {
        agree(range && first_of(*range) == first && range->granules == piece.granules, "an interval");
        agree(range->before == before, "the way back");
        agree(piece.sort != Intervals::bare || (first % unit == 0 && piece.granules % unit == 0),
              "bare addresses that pages cannot fill");
        agree(piece.sort == Intervals::live || range->offset == region->block->offset + first * granule,
              "where a range begins");
        agree(!before || piece.sort == Intervals::live || piece.sort != last_sort, "neighbours that should be one");
        last_sort = piece.sort;
        const auto state = piece.sort == Intervals::live   ? Range::State::live
                           : piece.sort == Intervals::bare ? Range::State::bare
                                                           : Range::State::free;
        agree(range->state == state, "the state of an interval");
        const bool mine = piece.sort == Intervals::of_shard;
        agree(!mine || (range->shard == &shard_ && range->closed_at() == piece.closed_at), "its last use");
        expected_free += piece.sort == Intervals::everyones;
        expected_cached += mine;
        before = std::exchange(range, range->after);
      }
      agree(!range && region->last == before, "an interval too many");
      agree(!before || before->state != Range::State::bare, "bare addresses behind all memory");
      const bool unused = !region->paged && region->unused();
      agree(region->listed_unused == unused, "whether a region is listed as unused");
      if (unused) largest_unused = std::max<std::uint64_t>(largest_unused, region->block->size);
      largest = std::max(largest, known.largest(Intervals::everyones));
    }
    agree(free == expected_free, "what is everyone's");
    agree(cached == expected_cached, "what is the shard's");
    agree(arena_.everyones.largest() == largest, "the largest range");
    agree((arena_.unused() ? arena_.unused()->block->size : 0) == largest_unused, "the largest region that is unused");
  }

  const ResourcePtr resource_ = host::make_pageable_resource();
  const Stream stream_{host_device()};
  std::deque<spi::Block> blocks_;
  std::map<const Region*, Intervals> model_;
  Arena arena_;
  const PoolPtr pool_ = make_pool(resource_);
  Shard shard_{static_cast<PoolResource&>(*pool_), stream_.state()};
  std::vector<Range*> live_, lifted_;
  std::optional<Arena::Opening> opening_;
};

}  // namespace weir::pool
