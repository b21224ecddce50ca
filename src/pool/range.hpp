// SPDX-License-Identifier: Apache-2.0
#pragma once
// One range of a pool's memory: the control block of a live buffer, or free. Ranges of a region form a list by address
// that leaves no gap, so that neighbours that are free become one.

#include <cstdint>

#include "pool/size_class.hpp"
#include "weir/spi/block.hpp"

namespace weir::pool {

class Shard;
struct Region;

/// 128 bytes: all the bookkeeping that a live buffer costs, and two cache lines that no other range has a part of.
/// `offset` counts from the segment's byte 0.
struct alignas(128) Range : spi::Block {
  enum class State : std::uint8_t {
    live,     ///< a buffer's, or in its shard's care: cached, or waiting for uses on other streams
    free,     ///< in an index: the shard's, or the pool's
    bare,     ///< addresses without memory, in an index of their own
  };

  Region* region = nullptr;
  Range* before = nullptr;  ///< neighbours by address
  Range* after = nullptr;
  Shard* shard = nullptr;     ///< on whose stream it was used last; null when free for every stream
  Range* previous = nullptr;  ///< in the list of an index; `next` is the other direction
  std::uint32_t granules = 0;
  State state = State::live;

  /// Value of the shard's stream when the buffer was closed: reuse elsewhere comes after it. Kept where a live buffer
  /// has its size.
  [[nodiscard]] std::uint64_t closed_at() const noexcept { return size; }
  void closed_at(std::uint64_t value) noexcept { size = value; }
  /// First granule, counted from the segment's.
  [[nodiscard]] std::uint64_t begin() const noexcept { return offset / granule; }
  [[nodiscard]] std::uint64_t end() const noexcept { return begin() + granules; }
  [[nodiscard]] std::size_t bytes() const noexcept { return static_cast<std::size_t>(granules) * granule; }
};
static_assert(sizeof(Range) == 128);

}  // namespace weir::pool
