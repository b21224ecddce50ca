// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where any thread leaves something for one that takes everything at once.

#include "weir/spi/sync.hpp"

namespace weir::pool {

/// Linked through Node::next. Nobody takes a single element out, so that none can be taken and come back unnoticed
/// between two steps of another thread.
template <class Node>
class ReturnStack {
 public:
  [[nodiscard]] bool empty() const noexcept { return top_.load(std::memory_order_relaxed) == nullptr; }
  void push(Node& node) noexcept { push(node, node); }
  /// A list that begins with `first` and ends with `last`.
  void push(Node& first, Node& last) noexcept {
    Node* top = top_.load(std::memory_order_relaxed);
    do {
      last.next = top;
    } while (!top_.compare_exchange_weak(top, &first, std::memory_order_release, std::memory_order_relaxed));
  }
  /// All of them, the last first; null when there are none.
  Node* take_all() noexcept { return top_.exchange(nullptr, std::memory_order_acquire); }

 private:
  sync::Atomic<Node*> top_{nullptr};
};

}  // namespace weir::pool
