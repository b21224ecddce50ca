// SPDX-License-Identifier: Apache-2.0
#pragma once
// One range of a pool's memory: the control block of a live buffer, or free. Ranges of a region form a list by address
// that leaves no gap, so that neighbours that are free become one.

#include <cstdint>

#include "pool/arena/size_class.hpp"
#include "weir/spi/block.hpp"

namespace weir::pool {

class Cache;
class Shard;
struct Region;

/// 128 bytes: all the bookkeeping that a live buffer costs, and two cache lines that no other range has a part of.
/// While a buffer is live, `offset` and `size` are its resource's: an adaptor may give out a part of the range. They are
/// the pool's again when the block comes back; where the range lies, `begin` says at all times.
struct alignas(128) Range : spi::Block {
  enum class State : std::uint8_t {
    live,     ///< a buffer's, in a cache, or on its way
    away,     ///< closed, and waiting for uses on other streams
    free,     ///< in an index: a shard's, or the pool's
    bare,     ///< addresses without memory, in an index of their own
  };

  State state = State::live;  // behind the block's last member
  bool leads = false;         ///< of one that is away: others of its cache wait with it
  Region* region = nullptr;
  Range* before = nullptr;  ///< neighbours by address
  Range* after = nullptr;
  Shard* shard = nullptr;     ///< of a free one: on whose stream it was used last; null when free for every stream
  Range* previous = nullptr;  ///< in the list of an index; `next` is the other direction
  union {
    Cache* cache = nullptr;  ///< which it came from and goes back to: of a live one, if any, or one that is away
    Range* sooner;           ///< of one in a shard's index: links of PendingRanges
  };
  Range* later = nullptr;
  std::uint32_t first = 0;  ///< granule, counted from the region's block
  std::uint32_t granules = 0;

  /// Value of the shard's stream when the buffer was closed: reuse elsewhere comes after it. Kept where a live buffer
  /// has its size.
  [[nodiscard]] std::uint64_t closed_at() const noexcept { return size; }
  void closed_at(std::uint64_t value) noexcept { size = value; }
  [[nodiscard]] std::uint64_t begin() const noexcept { return first; }
  [[nodiscard]] std::uint64_t end() const noexcept { return std::uint64_t{first} + granules; }
  [[nodiscard]] std::size_t bytes() const noexcept { return static_cast<std::size_t>(granules) * granule; }
};
static_assert(sizeof(Range) == 128 || sizeof(sync::Atomic<bool>) != 1);  // a test's atomics are larger

}  // namespace weir::pool
