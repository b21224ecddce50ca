// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranges of one cache that wait for the same point of another stream. The first of them stands in that stream's queue
// for all of them, so closing the others needs neither the pool's mutex nor the stream's.

#include <cstddef>
#include <cstdint>

#include "weir/spi/sync.hpp"

namespace weir::pool {

/// A list through Node::next. The link of the first node is not part of it, and is free for other lists. Only one
/// thread at a time, the cache's owner, begins and joins groups. The thread that finds that the first node's point has
/// passed takes all nodes, once.
template <class Node>
class WaitingGroup {
 public:
  static constexpr std::size_t most = 256;  ///< nodes; bounded because the owner keeps all that come back at once

  /// Begin a group with `first`. Return false while there is a group that nobody has taken.
  [[nodiscard]] bool begin(Node& first, const void* stream, std::uint64_t value) noexcept {
    if (latest_.load(std::memory_order_relaxed)) return false;
    stream_ = stream;
    value_ = value;
    count_ = 1;
    latest_.store(&first, std::memory_order_release);
    return true;
  }
  /// Return whether there is a group that waits for this point and has room for one more.
  [[nodiscard]] bool waits_for(const void* stream, std::uint64_t value) const noexcept {
    return value_ == value && stream_ == stream && count_ < most && latest_.load(std::memory_order_relaxed);
  }
  /// Join the group. Return false when it has been taken. After true the node may belong to any thread.
  [[nodiscard]] bool join(Node& node) noexcept {
    Node* latest = latest_.load(std::memory_order_relaxed);
    if (!latest) return false;
    node.next = latest;
    count_ += 1;
    return latest_.compare_exchange_strong(latest, &node, std::memory_order_release, std::memory_order_relaxed);
  }
  /// Take the group. Return its latest node, from which the links lead to the first.
  [[nodiscard]] Node& take() noexcept { return *latest_.exchange(nullptr, std::memory_order_acquire); }
  /// Return the latest node without taking the group; null when there is no group. While the caller follows the links,
  /// nobody may begin, join or take.
  [[nodiscard]] const Node* latest() const noexcept { return latest_.load(std::memory_order_relaxed); }

 private:
  sync::Atomic<Node*> latest_{nullptr};
  // Only for the thread that begins and joins.
  sync::Plain<const void*> stream_ = nullptr;
  sync::Plain<std::uint64_t> value_ = 0;
  sync::Plain<std::size_t> count_ = 0;
};

}  // namespace weir::pool
