// SPDX-License-Identifier: Apache-2.0
#pragma once
// Recycled control blocks of one resource whose buffers have a segment each, how these end, and the rule that keeps a
// resource alive while it has blocks out.

#include <memory>
#include <mutex>

#include "base/fork_mutex.hpp"
#include "stream/releases.hpp"
#include "weir/memory_resource.hpp"
#include "weir/spi/block.hpp"

namespace weir::detail {

/// Told when a segment is back at the driver, on any thread.
class ReleaseListener {
 public:
  virtual void segment_released(std::size_t bytes) noexcept = 0;

 protected:
  ~ReleaseListener() = default;
};

/// Gives out blocks from a free list. While at least one is out, the store holds the resource that it serves: one
/// reference count for all of them, changed under the lock that the free list needs anyway. A block is out until its segment
/// is released.
class BlockStore {
 public:
  explicit BlockStore(const spi::DeviceState& device) : queue_(device) {}
  BlockStore(const BlockStore&) = delete;
  BlockStore& operator=(const BlockStore&) = delete;
  ~BlockStore();

  /// A block with one owner, `resource` and `stream` set.
  spi::Block& take(MemoryResource& resource, const Stream& stream);
  /// End a block without owners: release its segment after all its points and tell `listener`. At once if they have passed
  /// and the driver's release cannot block, in stream order if the driver can, else later. Asks for no memory.
  void end(spi::Block& block, bool release_blocks, ReleaseListener& listener) noexcept;
  /// Give back the spare blocks.
  void trim() noexcept;
  /// Releases that wait.
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
