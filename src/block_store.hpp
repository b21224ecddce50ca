// SPDX-License-Identifier: Apache-2.0
#pragma once
// Recycled control blocks of one resource, and the rule that keeps a resource alive while it has blocks out.

#include <memory>
#include <mutex>

#include "weir/memory_resource.hpp"
#include "weir/spi/block.hpp"
#include "weir/spi/fork_link.hpp"

namespace weir::detail {

/// Gives out blocks from a free list. While at least one is out, the store holds the resource that it serves: one
/// reference count for all of them, changed under the lock that the free list needs anyway.
class BlockStore {
 public:
  BlockStore() = default;
  BlockStore(const BlockStore&) = delete;
  BlockStore& operator=(const BlockStore&) = delete;
  ~BlockStore();

  /// A block with one owner, `resource` and `stream` set.
  spi::Block& take(MemoryResource& resource, const Stream& stream);
  /// Take a block back. Returns the reference that kept the resource alive if this was the last block: drop it last.
  [[nodiscard]] std::shared_ptr<MemoryResource> put(spi::Block& block) noexcept;

 private:
  friend class spi::ForkLink;
  void fork(spi::ForkMoment moment) noexcept;

  std::mutex mutex_;
  spi::Block* free_ = nullptr;
  std::size_t out_ = 0;
  std::shared_ptr<MemoryResource> self_;
  spi::ForkLink link_{*this};  // last
};

}  // namespace weir::detail
