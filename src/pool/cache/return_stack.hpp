// SPDX-License-Identifier: Apache-2.0
#pragma once
// A stack on which any thread leaves nodes for one thread that takes all of them at once.

#include "weir/spi/sync.hpp"

namespace weir::pool {

/// Linked through Node::next. No thread takes out a single node, so no node can be taken and come back unnoticed
/// between two steps of another thread.
template <class Node>
class ReturnStack {
 public:
  [[nodiscard]] bool empty() const noexcept { return top_.load(std::memory_order_relaxed) == nullptr; }
  void push(Node& node) noexcept { push(node, node); }
  /// Push a list that begins with `first` and ends with `last`.
  void push(Node& first, Node& last) noexcept {
    Node* top = top_.load(std::memory_order_relaxed);
    do {
      last.next = top;
    } while (!top_.compare_exchange_weak(top, &first, std::memory_order_release, std::memory_order_relaxed));
  }
  /// Take all nodes as a list, the one pushed last first. Return null when there are none.
  Node* take_all() noexcept { return top_.exchange(nullptr, std::memory_order_acquire); }

 private:
  sync::Atomic<Node*> top_{nullptr};
};

}  // namespace weir::pool
