// SPDX-License-Identifier: Apache-2.0
#pragma once
// One range of a pool's memory: the control block of a live buffer, or free. The ranges of a region form a list by
// address without gaps, so that free neighbours can become one.

#include <cstdint>

#include "pool/arena/size_class.hpp"
#include "weir/spi/block.hpp"

namespace weir::pool {

class Cache;
class Shard;
struct Region;

/// 128 bytes: all the bookkeeping that a live buffer costs, in two cache lines that it shares with no other range.
/// While a buffer is live, `offset` and `size` belong to its resource: an adaptor may give out a part of the range.
/// When the block comes back, they belong to the pool again. `begin()` says at all times where the range is.
struct alignas(128) Range : spi::Block {
  enum class State : std::uint8_t {
    live,     ///< in use by a buffer, in a cache, or on its way between places
    away,     ///< closed, and waiting for uses on other streams
    free,     ///< in an index: a shard's, or the pool's
    bare,     ///< addresses without memory, in an index of their own
  };

  State state = State::live;  // placed right behind the block's last member
  bool leads = false;         ///< while away: other ranges of its cache wait with this one
  Region* region = nullptr;
  Range* before = nullptr;  ///< neighbours by address
  Range* after = nullptr;
  Shard* shard = nullptr;     ///< while free: of the stream that used it last; null when free for every stream
  Range* previous = nullptr;  ///< in the list of an index; `next` is the other direction
  union {
    Cache* cache = nullptr;  ///< while live (if any) or away: where the range came from and goes back to
    Range* sooner;           ///< while in a shard's index: with `later`, the links of PendingRanges
  };
  Range* later = nullptr;
  std::uint32_t first = 0;  ///< first granule, counted from the beginning of the region's block
  std::uint32_t granules = 0;

  /// Return the value of the shard's stream when the buffer was closed. Reuse on other streams comes after it. It is
  /// kept where a live buffer has its size.
  [[nodiscard]] std::uint64_t closed_at() const noexcept { return size; }
  void closed_at(std::uint64_t value) noexcept { size = value; }
  [[nodiscard]] std::uint64_t begin() const noexcept { return first; }
  [[nodiscard]] std::uint64_t end() const noexcept { return std::uint64_t{first} + granules; }
  [[nodiscard]] std::size_t bytes() const noexcept { return static_cast<std::size_t>(granules) * granule; }
};
static_assert(sizeof(Range) == 128 || sizeof(sync::Atomic<bool>) != 1);  // a test's atomics are larger

}  // namespace weir::pool
