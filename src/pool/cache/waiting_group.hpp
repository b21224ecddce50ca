// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranges of one cache that wait for the same point of another stream. The first of them stands in that stream's queue for
// all of them, so that closing the others needs neither the pool's mutex nor the stream's.

#include <cstddef>
#include <cstdint>

#include "weir/spi/sync.hpp"

namespace weir::pool {

/// Linked through Node::next, but for the first, whose link is free for others. One thread at a time begins and joins, the
/// cache's owner; whoever finds that the point of the first has passed takes all of them, once.
template <class Node>
class WaitingGroup {
 public:
  static constexpr std::size_t most = 256;  ///< because the owner keeps all that comes back at once

  /// False while there is a group that nobody has taken.
  [[nodiscard]] bool begin(Node& first, const void* stream, std::uint64_t value) noexcept {
    if (latest_.load(std::memory_order_relaxed)) return false;
    stream_ = stream;
    value_ = value;
    count_ = 1;
    latest_.store(&first, std::memory_order_release);
    return true;
  }
  /// And one more may join.
  [[nodiscard]] bool waits_for(const void* stream, std::uint64_t value) const noexcept {
    return value_ == value && stream_ == stream && count_ < most && latest_.load(std::memory_order_relaxed);
  }
  /// False when there is none any more. After true the node may be anybody's.
  [[nodiscard]] bool join(Node& node) noexcept {
    Node* latest = latest_.load(std::memory_order_relaxed);
    if (!latest) return false;
    node.next = latest;
    count_ += 1;
    return latest_.compare_exchange_strong(latest, &node, std::memory_order_release, std::memory_order_relaxed);
  }
  /// The latest of them, from which the links lead to the first.
  [[nodiscard]] Node& take() noexcept { return *latest_.exchange(nullptr, std::memory_order_acquire); }
  /// The same for a look, or null. While the links are followed, nobody may begin, join or take.
  [[nodiscard]] const Node* latest() const noexcept { return latest_.load(std::memory_order_relaxed); }

 private:
  sync::Atomic<Node*> latest_{nullptr};
  // Of the thread that begins and joins.
  sync::Plain<const void*> stream_ = nullptr;
  sync::Plain<std::uint64_t> value_ = 0;
  sync::Plain<std::size_t> count_ = 0;
};

}  // namespace weir::pool
