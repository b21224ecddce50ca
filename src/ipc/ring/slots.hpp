// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of a ring. A slot is a Buffer whose last owner, here or at a peer, makes it free again.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "ipc/channel/deadline.hpp"
#include "memory/foreign_resource.hpp"
#include "weir/buffer.hpp"
#include "weir/stream.hpp"

namespace weir::detail::ring {

/// Hands out ranges of one allocation. Lives until the last of them is free. Its lock is taken after all others: a slot
/// becomes free wherever its last owner ends.
class Slots final : public ForeignResource {
 public:
  /// Allocate `count` slots from `resource`. Throws what it throws.
  static std::shared_ptr<Slots> make(MemoryResource& resource, std::size_t count, std::size_t bytes);
  Slots(Buffer memory, Stream home, std::size_t count, std::size_t bytes, std::size_t stride);

  /// Return a slot that nobody uses, which `stream` may use at once; nothing if there is none.
  [[nodiscard]] std::optional<Buffer> try_take(const Stream& stream);
  [[nodiscard]] bool owns(const Buffer& buffer) const noexcept;
  /// Record a use by what has been put so far on the stream for which the slot was taken. There is room for that. Not
  /// if it is the one that publishes, whose use the caller records later.
  static void used_where_taken(const Buffer& slot, const Stream& publishing);
  /// The slot was published: what comes on that stream from now on does not use it. One thread at a time says so.
  static void published(const Buffer& slot) noexcept;
  /// Return a part of the memory that stands for nothing.
  [[nodiscard]] Buffer token() const { return memory_.slice(0, 1); }
  /// Return a stream without work.
  [[nodiscard]] const Stream& idle() const noexcept { return home_; }

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }  ///< of one
  [[nodiscard]] std::size_t free() const;
  /// The last owner of this slot ends next, because its frame was dropped.
  void drops(const Buffer& buffer) noexcept;
  /// Return how many dropped slots are not free yet.
  [[nodiscard]] std::size_t dropping() const;
  /// Return a number that changes when a slot becomes free, and with each nudge().
  [[nodiscard]] std::uint64_t news() const;
  void nudge() noexcept;
  /// Wait until news() is not `seen` any more. Return false if it is when the deadline passes.
  [[nodiscard]] bool wait(std::uint64_t seen, const channel::Deadline& deadline);

 private:
  struct Slot final : ReleaseListener {
    void segment_released(std::size_t) noexcept override {
      slots->uncount(slots->bytes_, Reserves::its_bytes);
      slots->push(index);
    }
    Slots* slots = nullptr;
    std::uint32_t index = 0;
    spi::StreamState* taken_for = nullptr;  // kept by the block's record of uses
    bool published = false;
    bool dropped = false;  // and not free yet
  };

  static Slot& slot_of(spi::Block& block) noexcept { return *static_cast<Slot*>(BlockStore::tag(block)); }
  void end(spi::Block& block) noexcept override;
  [[nodiscard]] std::optional<std::uint32_t> pop();
  void push(std::uint32_t index) noexcept;

  const Buffer memory_;
  const Stream home_;  // allocation stream of everything, on which nobody puts work
  const std::size_t bytes_, stride_;
  const std::uint32_t process_;
  const std::unique_ptr<Slot[]> all_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::uint32_t> free_;  // has room for all
  std::size_t dropping_ = 0;
  std::uint64_t news_ = 0;
};

}  // namespace weir::detail::ring
