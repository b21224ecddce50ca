// SPDX-License-Identifier: Apache-2.0
#pragma once
// Control block of one allocation: which range of which segment, who used it until when, how many owners. Blocks are
// recycled by the resource that made them, so that a warm allocation needs no malloc.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "weir/fwd.hpp"
#include "weir/spi/points.hpp"
#include "weir/spi/segment.hpp"
#include "weir/spi/sync.hpp"
#include "weir/stream.hpp"

namespace weir::spi {

/// What a resource is asked for. `bytes` > 0; `alignment` is a power of two.
struct Request {
  std::size_t bytes;
  std::size_t alignment;
  const Stream* stream;
};

/// The points at which other streams have last used a block.
struct Uses : Points {
  explicit Uses(Block& of) noexcept : block(of) {}
  Block& block;
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

 private:
  sync::Plain<Uses*> uses_ = nullptr;  // made with the first; one point per stream other than the allocation stream

 public:
  sync::Atomic<std::uint32_t> owners{1};

  Block() noexcept = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { delete uses_; }

  /// Record that `stream` uses the memory up to `value`. Thread-safe; free of atomics on the allocation stream. Only the
  /// first use by a stream allocates: whoever must not fail later records value 0 before.
  void used(StreamState& user, std::uint64_t value);
  /// The same by the only owner, who ends the block before anything else, for a stream of the caller's. Only for a
  /// resource that keeps uses (MemoryResource::Traits).
  void used_last(StreamState& user, std::uint64_t value);
  /// The same for a stream that has been closed meanwhile, by a resource that gives the memory back.
  void waits_for(StreamState& user, std::uint64_t value);
  /// The recorded uses and the allocation stream's present position: whoever waits for them sees every write so far.
  [[nodiscard]] std::vector<Point> uses();
  /// Have the recorded uses recorded by the driver, too, so that nobody needs the streams to find out when they are over.
  void mark_uses() noexcept;
  /// Whether no stream but the allocation stream has a use on record.
  [[nodiscard]] bool only_at_home() const noexcept {
    return (!uses_ || uses_->empty()) && busy_.load(std::memory_order_relaxed) == 0;
  }

  // Of a block without owners.

  /// The recorded uses; null when there never were any.
  [[nodiscard]] Uses* take_uses() noexcept {
    leave_parent();
    return uses_;
  }
  /// What take_uses() returned, for whoever closed the block.
  [[nodiscard]] Uses* taken_uses() noexcept { return uses_; }
  /// Nobody adds to the record any more: keep the streams in it instead of using them.
  void keep_uses() noexcept {
    if (Uses* const uses = take_uses()) uses->keep();
  }
  /// Forget the recorded uses, all of which are over.
  void forget_uses() noexcept {
    if (Uses* const uses = take_uses()) uses->clear();
  }

 private:
  friend class BlockGuard;
  void record(StreamState& user, std::uint64_t value, Points::How how);
  void add(StreamState& user, std::uint64_t value, Points::How how);
  void rebuild() noexcept;
  void leave_parent() noexcept;

  // Who is inside: 0, or a number of the process whose thread it is. Last and short: what derives from this goes on behind it.
  sync::Atomic<std::uint16_t> busy_{0};
};

}  // namespace weir::spi
