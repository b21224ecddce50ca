// SPDX-License-Identifier: Apache-2.0
#pragma once
// Control block of one allocation: its range of a segment, the streams that used it and until when, the count of its
// owners. Blocks are recycled by the resource that made them, so that a warm allocation needs no malloc.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "weir/export.hpp"
#include "weir/fwd.hpp"
#include "weir/spi/points.hpp"
#include "weir/spi/segment.hpp"
#include "weir/spi/sync.hpp"
#include "weir/stream.hpp"

namespace weir::spi {

/// A request to a resource. `bytes` > 0; `alignment` is a power of two.
struct Request {
  std::size_t bytes;      ///< asked for
  std::size_t alignment;  ///< at least default_alignment
  const Stream* stream;   ///< allocation stream; never null
};

/// The last points at which streams other than the allocation stream used a block.
struct Uses : Points {
  /// Make an empty record of `of`, which outlives it.
  explicit Uses(Block& of) noexcept : block(of) {}
  Block& block;  ///< whose uses these are
};

/// One allocation. A resource's do_allocate makes the block, and the do_deallocate of `resource` ends it. Blocks are
/// small, because a pool keeps one per live buffer, of a class that the pool derives from this one.
struct WEIR_API Block {
  Segment* segment = nullptr;          ///< null for zero bytes, and for nothing else
  std::size_t offset = 0;              ///< of byte 0 within the segment
  std::size_t size = 0;                ///< bytes asked for
  MemoryResource* resource = nullptr;  ///< ends the block; keeps itself alive until then (BlockStore)
  StreamState* stream = nullptr;       ///< allocation stream; its uses need no record; kept alive by the resource
  Block* next = nullptr;               ///< free list of the resource

 private:
  // Made with the first use by a stream but the allocation stream, of which each has one point. Changed inside.
  sync::Atomic<Uses*> uses_{nullptr};

 public:
  sync::Atomic<std::uint32_t> owners{1};  ///< Buffers and slices; the last one gives the block back

  Block() noexcept = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { delete recorded(); }

  /// Record that `user` uses the memory up to `value`. Thread-safe; needs no atomics for the allocation stream. Only
  /// the first use by a stream allocates memory: a caller that must not fail later records value 0 before.
  void used(StreamState& user, std::uint64_t value);
  /// The same, called by the only owner, which ends the block before it does anything else. The caller has `user` in
  /// use until then. Only for a resource that keeps uses (MemoryResource::Traits).
  void used_last(StreamState& user, std::uint64_t value);
  /// The same, called by a resource that gives the memory back. `user` may be closed by then.
  void waits_for(StreamState& user, std::uint64_t value);
  /// Return the recorded uses and the allocation stream's present position. A stream that waits for all of these sees
  /// every write so far.
  [[nodiscard]] std::vector<Point> uses();
  /// Return those of uses() for which `follower` has to wait: of other streams, and not complete yet. A null follower
  /// is the host.
  [[nodiscard]] std::vector<Point> uses_before(const StreamState* follower);
  /// Return whether no stream but the allocation stream has ever used the block, and nobody is about to say so.
  [[nodiscard]] bool never_left_home() const noexcept {
    return uses_.load(std::memory_order_acquire) == nullptr && busy_.load(std::memory_order_relaxed) == 0;
  }
  /// Return whether all uses so far are complete, as far as is known without asking a driver.
  [[nodiscard]] bool known_complete() const noexcept;
  /// Have the driver record the uses, too, so that nobody needs the streams to find out when the uses are over.
  void mark_uses() noexcept;
  /// Return whether no stream but the allocation stream has a use on record.
  [[nodiscard]] bool only_at_home() const noexcept {
    const Uses* const uses = recorded();
    return (!uses || uses->empty()) && busy_.load(std::memory_order_relaxed) == 0;
  }

  // For a block without owners.

  /// Return the recorded uses; null when there never were any.
  [[nodiscard]] Uses* take_uses() noexcept {
    leave_parent();
    return recorded();
  }
  /// Return what take_uses() returned, for the resource that has closed the block.
  [[nodiscard]] Uses* taken_uses() noexcept { return recorded(); }
  /// Keep the recorded streams instead of using them. Nobody adds to the record any more.
  void keep_uses() noexcept {
    if (Uses* const uses = take_uses()) uses->keep();
  }
  /// Forget the recorded uses, all of which are over.
  void forget_uses() noexcept {
    if (Uses* const uses = take_uses()) uses->clear();
  }

 private:
  friend class BlockGuard;
  /// For those who are inside, and for a block without owners.
  [[nodiscard]] Uses* recorded() const noexcept { return uses_.load(std::memory_order_relaxed); }
  void record(StreamState& user, std::uint64_t value, Points::How how);
  void add(StreamState& user, std::uint64_t value, Points::How how);
  void rebuild() noexcept;
  void leave_parent() noexcept;

  // Whether a thread is inside the record: 0, or a number of that thread's process. Last and short, so that the members
  // of derived classes begin right behind it.
  sync::Atomic<std::uint16_t> busy_{0};
};

}  // namespace weir::spi
