// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of a pool: regions from upstream, cut into ranges. Free neighbours are merged, free ranges found by size.
// Not thread-safe: the pool's mutex guards it.
//
// Invariants, between any two calls:
// - The ranges of a region lie side by side from its beginning: where one ends, the next begins. In a region of memory they
//   reach its end.
// - Two neighbours are never both free for the same stream, both free for every stream, or both bare.
// - A range is in exactly one index if it is free or bare, and in none if it is live.
// - Bare ranges begin and end where pages do, and none is the last of its region.
// - Nothing here reads what a live range's `offset` and `size` say: they are its buffer's.

#include <list>
#include <optional>
#include <vector>

#include "pool/arena/free_ranges.hpp"
#include "pool/arena/pending_ranges.hpp"
#include "pool/arena/region.hpp"
#include "weir/spi/point_queue.hpp"

namespace weir::pool {

class Arena {
 public:
  /// Take over `block`, for one large request or for what fits; its one range is free for the stream of `shard` after
  /// `closed_at`, for every stream without one. Throws only for want of memory, and then has not taken it.
  void add(MemoryResource& owner, spi::Block& block, bool large, Shard* shard, std::uint64_t closed_at);
  /// Take out a region that is unused() and return its block.
  spi::Block& remove(Region& region) noexcept;
  /// The largest that is unused(), or null: so the fewest go back to make room.
  [[nodiscard]] Region* unused() const noexcept { return unused_.empty() ? nullptr : &unused_.last(); }

  /// A range of exactly `granules`, its first byte at a multiple of `alignment`, out of what `index` has for large
  /// requests, or for others. Without pages, a large request gets at most an eighth more, or what fits out of memory for
  /// others. In no index then, and `live`. Null when there is none. Throws only for want of memory, and then did nothing.
  Range* cut(FreeRanges& index, std::uint64_t granules, std::size_t alignment, RangeIndex::Search search, bool large);
  Range* cut(PendingRanges& index, std::uint64_t granules, std::size_t alignment, RangeIndex::Search search, bool large);
  /// Make a range free for the stream of its shard, or for every one if it has none.
  void make_free(Range& range) noexcept;
  /// Make a range of a shard's index free for every stream.
  void clear(Range& range) noexcept;

  // For addresses.

  /// Take them over, as add() does: a quarter for requests of at most half a page, the rest for large ones.
  void add_addresses(MemoryResource& owner, spi::Block& block);
  /// Those for the former, or for the latter.
  [[nodiscard]] Region& addresses(bool large) noexcept { return large ? regions.front() : regions.back(); }
  /// Neighbours that together hold a request: free for every stream, or bare. Nobody else finds them meanwhile.
  struct Opening {
    struct Part {
      Range* range;
      bool bare;
    };
    std::vector<Part> parts;
  };
  /// One that needs little memory, in multiples of `unit`. Nothing when there are too few addresses. Throws only for want of
  /// memory, and then did nothing.
  std::optional<Opening> open(Region& region, std::uint64_t granules, std::uint64_t unit);
  /// Make all of it free for every stream, now that it has memory; or what it was, when it has none.
  void close(const Opening& opening, bool has_memory) noexcept;
  /// Cut a piece out of a range that is free for every stream, and let nobody find it. `rest` becomes what follows it;
  /// null when nothing does. Needs two spare ranges.
  Range& lift(Range& range, std::uint64_t begin, std::uint64_t granules, Range*& rest) noexcept;
  /// What was lifted has no memory any more.
  void strip(Range& range) noexcept;
  /// Have so many ranges at hand. Throws only for want of memory.
  void make_spare(std::size_t count) {
    if (spare_count_ < count) make_slabs(count);
  }

  /// Granules; larger requests are large. They get regions of their own where there are no addresses, if none that was
  /// added for others has room.
  std::uint64_t largest_small = ~std::uint64_t{0};
  FreeRanges everyones;  ///< free ranges that no stream still uses
  std::list<Region> regions;
  std::size_t bytes = 0;  ///< of memory
  std::uint64_t freed = 0;  ///< how often a range became everyone's

 private:
  template <class Index>
  Range* cut_from(Index& index, std::uint64_t granules, std::size_t alignment, RangeIndex::Search search, bool large);
  void insert(Range& range) noexcept;
  void remove(Range& range) noexcept;
  bool merges(const Range* left, const Range* right) const noexcept;
  void join(Range& left, Range& right) noexcept;
  Range& split(Range& range, std::uint64_t granules) noexcept;
  void insert_merged(Range& range) noexcept;
  Range& add_behind(Region& region, std::uint64_t granules) noexcept;
  void make_slabs(std::size_t count);
  Range& take_spare() noexcept;
  void recycle(Range& range) noexcept;

  static void make_live(Range& range) noexcept;
  void list_unused(Region& region) noexcept;
  void unlist_unused(Region& region) noexcept;

  RangeIndex bare_;
  spi::PointQueue<Region, Region::BySize> unused_;
  std::vector<std::vector<Range>> slabs_;  // each an eighth of what there was, within bounds
  std::size_t ranges_ = 0;                 // in them
  Range* spare_ = nullptr;
  std::size_t spare_count_ = 0;
};

}  // namespace weir::pool
