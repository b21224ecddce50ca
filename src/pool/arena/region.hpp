// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a pool has from upstream in one piece.

#include <list>

#include "pool/arena/range.hpp"
#include "weir/spi/block.hpp"

namespace weir::pool {

/// One allocation from upstream, of at most most_bytes; or a part of such addresses, whose ranges end where no memory was
/// yet.
struct Region {
  spi::Block* block = nullptr;  ///< upstream's
  MemoryResource* owner = nullptr;
  bool paged = false;
  bool large = false;  ///< serves large requests only; without pages, one
  std::uint64_t begin = 0;  ///< first granule, and the one after the last, of addresses: counted from the block's
  std::uint64_t end = 0;
  Range* first = nullptr;  ///< null for addresses without any memory
  Range* last = nullptr;
  std::list<Region>::iterator self;
  bool listed_unused = false;
  Region *smaller = nullptr, *larger = nullptr;  // of those listed

  struct BySize {
    static std::uint64_t value(const Region& region) noexcept { return region.block->size; }
    static Region*& left(Region& region) noexcept { return region.smaller; }
    static Region*& right(Region& region) noexcept { return region.larger; }
  };
  [[nodiscard]] std::uint64_t address() const noexcept;  ///< of its first byte: device's, or host's where it has no other
  /// Whether it is one range that is free for every stream.
  [[nodiscard]] bool unused() const noexcept {
    return !paged && first->state == Range::State::free && !first->shard && !first->after;
  }
};

}  // namespace weir::pool
