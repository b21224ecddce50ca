// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a pool gets from upstream in one piece.

#include <list>

#include "pool/arena/range.hpp"
#include "weir/spi/block.hpp"

namespace weir::pool {

/// One allocation from upstream, of at most most_bytes. In a pool with pages, it is a part of such an allocation of
/// addresses, and its ranges end where the last memory ends.
struct Region {
  spi::Block* block = nullptr;  ///< upstream's
  MemoryResource* owner = nullptr;
  bool paged = false;
  bool large = false;  ///< serves large requests only; without pages, one at a time
  /// Of addresses: the first granule and the one after the last, counted from the beginning of the block.
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  Range* first = nullptr;  ///< null for addresses without any memory
  Range* last = nullptr;
  std::list<Region>::iterator self;
  bool listed_unused = false;
  Region *smaller = nullptr, *larger = nullptr;  // links among the listed regions

  struct BySize {
    static std::uint64_t value(const Region& region) noexcept { return region.block->size; }
    static Region*& left(Region& region) noexcept { return region.smaller; }
    static Region*& right(Region& region) noexcept { return region.larger; }
  };
  /// Return the address of the block: for the device, or for the host if there is no other.
  [[nodiscard]] std::uint64_t address() const noexcept;
  /// Return whether the region is one range that is free for every stream; never so for addresses.
  [[nodiscard]] bool unused() const noexcept {
    return !paged && first->state == Range::State::free && !first->shard && !first->after;
  }
};

}  // namespace weir::pool
