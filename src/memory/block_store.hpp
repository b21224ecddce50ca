// SPDX-License-Identifier: Apache-2.0
#pragma once
// Control blocks of a resource whose buffers have one segment each: how blocks are recycled, how they end, and what
// keeps the resource alive while it has blocks out.

#include <memory>

#include "base/fork_mutex.hpp"
#include "stream/release_queue.hpp"
#include "weir/memory_resource.hpp"
#include "weir/spi/block.hpp"

namespace weir::detail {

/// Is told, on any thread, when a segment is back at the driver.
class ReleaseListener {
 public:
  virtual void segment_released(std::size_t bytes) noexcept = 0;

 protected:
  ~ReleaseListener() = default;
};

/// Hands out blocks from a free list. While at least one block is out, the store holds a reference to the resource that
/// it serves. One reference serves all blocks, and it changes under the lock that the free list needs anyway. A block
/// is out until its segment is released.
class BlockStore {
 public:
  explicit BlockStore(const spi::DeviceState& device) : queue_(device) {}
  BlockStore(const BlockStore&) = delete;
  BlockStore& operator=(const BlockStore&) = delete;
  ~BlockStore();

  /// Return a block that has one owner, and whose `resource` and `stream` are set.
  spi::Block& take(MemoryResource& resource, const Stream& stream);
  /// Take back a block that was taken and never given out.
  void put_back(spi::Block& block) noexcept;
  /// Return whether take() of this store made the block. It must be a block of some BlockStore.
  [[nodiscard]] bool owns(const spi::Block& block) const noexcept;
  /// Return what the resource keeps beside a block that is out: whatever it last assigned.
  [[nodiscard]] static void*& tag(spi::Block& block) noexcept;
  /// End a block that has no owners: release its segment after all its points, and tell `listener`. The release happens
  /// at once if the points have passed and the driver's release cannot block, in stream order if the driver can do
  /// that, and later otherwise. Needs no memory.
  void end(spi::Block& block, bool release_blocks, ReleaseListener& listener) noexcept;
  /// Delete the spare blocks.
  void trim() noexcept;
  /// Return the queue of the releases that wait.
  [[nodiscard]] ReleaseQueue& queue() noexcept { return queue_; }

 private:
  struct Stored;
  void recycle(Stored& block) noexcept;

  ForkMutex mutex_;
  Stored* free_ = nullptr;
  std::size_t out_ = 0;
  std::shared_ptr<MemoryResource> self_;
  ReleaseQueue queue_;
};

}  // namespace weir::detail
