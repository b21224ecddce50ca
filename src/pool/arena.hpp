// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of a pool: regions from upstream, cut into ranges. Free neighbours are merged, free ranges found by size.
// Not thread-safe: the pool's mutex guards it.

#include <array>
#include <list>
#include <memory>
#include <vector>

#include "pool/range.hpp"
#include "pool/range_index.hpp"

namespace weir::pool {

/// One allocation from upstream, of at most most_bytes.
struct Region {
  spi::Block* block = nullptr;  ///< upstream's
  Range* first = nullptr;
  std::list<Region>::iterator self;

  [[nodiscard]] std::uint64_t address() const noexcept;  ///< of its first byte: device's, or host's where it has no other
  [[nodiscard]] bool unused() const noexcept {
    return first->state == Range::State::free && !first->shard && !first->after;
  }
};

class Arena {
 public:
  /// Take over `block`; its one range is free for the stream of `shard` after `closed_at`, for every stream without one.
  /// Throws only for want of memory, and then has not taken it.
  void add(MemoryResource& owner, spi::Block& block, Shard* shard, std::uint64_t closed_at);
  /// Take out a region that is unused() and return its block.
  spi::Block& remove(Region& region) noexcept;

  /// A range of exactly `granules`, its first byte at a multiple of `alignment`, out of `index`; in no index then, and
  /// `live`. Null when there is none. Throws only for want of memory, and then did nothing.
  Range* cut(RangeIndex& index, std::uint64_t granules, std::size_t alignment, RangeIndex::Search search);
  /// Make a range free for the stream of its shard, or for every one if it has none.
  void put(Range& range) noexcept;
  /// Make a range of a shard's index free for every stream.
  void clear(Range& range) noexcept;

  RangeIndex everyones;  ///< free ranges that no stream still uses
  std::list<Region> regions;
  std::size_t bytes = 0;  ///< of all regions

 private:
  RangeIndex& index_of(const Range& range) noexcept;
  bool merges(const Range* left, const Range* right) const noexcept;
  void join(Range& left, Range& right) noexcept;
  Range& split(Range& range, std::uint64_t granules) noexcept;
  void make_spare(std::size_t count);
  Range& take_spare() noexcept;
  void recycle(Range& range) noexcept;

  static constexpr std::size_t per_slab = 63;  // and the malloc header: two pages
  std::vector<std::unique_ptr<std::array<Range, per_slab>>> slabs_;
  Range* spare_ = nullptr;
};

}  // namespace weir::pool
