// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of a pool: regions from upstream, cut into ranges. Free neighbours are merged, and free ranges are found
// by size. Not thread-safe: the pool's mutex guards it.
//
// Invariants, between any two calls:
// - The ranges of a region follow one another from its beginning without gaps. In a region that is not paged they reach
//   its end.
// - Two neighbours are never both free for the same stream, both free for every stream, or both bare.
// - A range is in exactly one index if it is free or bare, and in none if it is live.
// - Bare ranges begin and end where pages do, and none is the last of its region.
// - Nothing here reads the `offset` and `size` of a live range: they belong to its buffer.

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
  /// Take over `block`, for one large request or for whatever fits. It becomes one free range: for the stream of
  /// `shard` at once, and for the others after `closed_at`; without a shard, for every stream. Throws only for want of
  /// memory, and then has not taken the block.
  void add(MemoryResource& owner, spi::Block& block, bool large, Shard* shard, std::uint64_t closed_at);
  /// Take out a region that is unused() and return its block.
  spi::Block& remove(Region& region) noexcept;
  /// Return the largest region that is unused(), or null. The largest first, so that the fewest go back to make room.
  [[nodiscard]] Region* unused() const noexcept { return unused_.empty() ? nullptr : &unused_.last(); }

  /// Cut a range of exactly `granules` from what `index` has for large requests, or for small ones. Its first byte is
  /// at a multiple of `alignment`. In a pool without pages, a large request gets a whole range with at most an eighth
  /// more, or else exactly what it needs from memory for small requests. The returned range is `live` and in no index.
  /// Return null when there is none. Throws only for want of memory, and then has done nothing.
  Range* cut(FreeRanges& index, std::uint64_t granules, std::size_t alignment, RangeIndex::Search search, bool large);
  Range* cut(PendingRanges& index, std::uint64_t granules, std::size_t alignment, RangeIndex::Search search, bool large);
  /// Make a range free for the stream of its shard, or for every stream if it has no shard.
  void make_free(Range& range) noexcept;
  /// Make a range of a shard's index free for every stream.
  void clear(Range& range) noexcept;

  // For a pool with pages, whose regions are addresses.

  /// Take over a block of addresses: a quarter for requests of at most half a page, the rest for large requests. Throws
  /// as add() does.
  void add_addresses(MemoryResource& owner, spi::Block& block);
  /// Return the region for large requests, or the region for small ones.
  [[nodiscard]] Region& addresses(bool large) noexcept { return large ? regions.front() : regions.back(); }
  /// Neighbouring ranges that together hold a request. Each was free for every stream, or is bare. They are in no index
  /// meanwhile, so nothing else finds them.
  struct Opening {
    struct Part {
      Range* range;
      bool bare;
    };
    std::vector<Part> parts;
  };
  /// Take out an opening for `granules` that needs little memory, in multiples of `unit`. Return nullopt when there are
  /// too few addresses. Throws only for want of memory, and then has done nothing.
  std::optional<Opening> open(Region& region, std::uint64_t granules, std::uint64_t unit);
  /// Put an opening back. With memory, all of it becomes free for every stream; without, each part becomes what it was.
  void close(const Opening& opening, bool has_memory) noexcept;
  /// Cut a piece out of a range that is free for every stream, and leave it in no index. Set `rest` to the part of the
  /// range that follows the piece, or to null when nothing follows. Needs two spare ranges.
  Range& lift(Range& range, std::uint64_t begin, std::uint64_t granules, Range*& rest) noexcept;
  /// Make a lifted range bare: it has no memory any more.
  void strip(Range& range) noexcept;
  /// Have `count` spare ranges at hand. Throws only for want of memory.
  void make_spare(std::size_t count) {
    if (spare_count_ < count) make_slabs(count);
  }

  /// Granules of the largest small request; larger ones are large. In a pool without pages, a large request gets a
  /// region of its own, unless memory for small requests has room for it.
  std::uint64_t largest_small = ~std::uint64_t{0};
  FreeRanges everyones;  ///< free ranges that no stream uses any more
  std::list<Region> regions;
  std::size_t bytes = 0;  ///< of memory, in all regions
  std::uint64_t freed = 0;  ///< how often a range became free for every stream

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
  std::vector<std::vector<Range>> slabs_;  // each new one has an eighth of the ranges so far, within bounds
  std::size_t ranges_ = 0;                 // in all slabs
  Range* spare_ = nullptr;
  std::size_t spare_count_ = 0;
};

}  // namespace weir::pool
