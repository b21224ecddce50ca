// SPDX-License-Identifier: Apache-2.0
#pragma once
// Control block of one allocation: which range of which segment, who used it until when, how many owners. Blocks are
// recycled by the resource that made them, so that a warm allocation needs no malloc.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "weir/fwd.hpp"
#include "weir/spi/segment.hpp"
#include "weir/stream.hpp"

namespace weir::spi {

/// "Everything on `stream` up to `value`."
struct Point {
  Ref<StreamState> stream;
  std::uint64_t value = 0;
};

/// What a resource is asked for. `bytes` > 0; `alignment` is a power of two.
struct Request {
  std::size_t bytes;
  std::size_t alignment;
  const Stream* stream;
};

/// One allocation. Made by a resource's do_allocate, ended by the do_deallocate of `resource`. Small, because pools keep
/// one per live buffer; a pool derives its own.
struct Block {
  Segment* segment = nullptr;          ///< null for zero bytes, and for nothing else
  std::size_t offset = 0;              ///< of byte 0 within the segment
  std::size_t size = 0;                ///< bytes asked for
  MemoryResource* resource = nullptr;  ///< ends the block; keeps itself alive until then (BlockStore)
  StreamState* stream = nullptr;       ///< allocation stream; its uses need no record; kept alive by the resource
  Block* next = nullptr;               ///< free list of the resource
  std::atomic<std::uint32_t> owners{1};

  /// Record that `stream` uses the memory up to `value`. Thread-safe; free of atomics on the allocation stream. Only the
  /// first use by a stream allocates: whoever must not fail later records value 0 before.
  void used(StreamState& user, std::uint64_t value);
  /// The recorded uses and the allocation stream's present position: whoever waits for them sees every write so far.
  [[nodiscard]] std::vector<Point> uses();
  /// Make room for what take_points() returns. Called when the block is given out.
  void reserve_points() { uses_.reserve(1); }
  /// All points after which the memory is free, the allocation stream's present position included. Clears the record.
  [[nodiscard]] std::vector<Point> take_points() noexcept;
  /// Clear the record, all of which has passed.
  void forget_points() noexcept { uses_.clear(); }
  /// Whether no stream but the allocation stream has a use on record.
  [[nodiscard]] bool only_at_home() const noexcept {
    return uses_.empty() && busy_.load(std::memory_order_relaxed) == 0;
  }
  /// A use that is not over: later ones of its stream are not, either.
  struct Unfinished {
    const StreamState* stream = nullptr;
    std::uint64_t value = 0;
  };
  /// Forget the recorded uses that are over. True when none is left. `known` saves asking a driver again for many blocks in
  /// a row.
  bool settle_uses(Unfinished& known) noexcept;
  /// Hand the recorded uses to `other`, which nobody else uses now. Throws only for want of memory, and then did nothing.
  void move_uses(Block& other);

 private:
  friend class BlockGuard;
  void rebuild() noexcept;
  void leave_parent() noexcept;

  std::atomic<std::uint32_t> busy_{0};  // who is inside: 0, or the fork generation of the process whose thread it is
  std::vector<Point> uses_;  // one per stream other than the allocation stream; has room for that one too
};

}  // namespace weir::spi
