// SPDX-License-Identifier: Apache-2.0
#pragma once
// A queue of elements in the order of their values. Finding the first element and taking out any other takes
// logarithmic time, in whatever order the elements came, and no memory. It is a treap (Seidel, Aragon: "Randomized
// search trees", 1996) whose random priorities are the elements' addresses, scrambled.

#include <cstdint>
#include <functional>

namespace weir::spi {

/// `Order` says where an element keeps its value and its two links. It has static functions value(const Node&),
/// left(Node&) and right(Node&), of which the latter two return Node*&. A value must not change while its element is in
/// the queue.
template <class Node, class Order>
class PointQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return root_ == nullptr; }  ///< no element stands here
  /// Return an element with the smallest value. The queue must not be empty.
  [[nodiscard]] Node& first() const noexcept {
    Node* node = root_;
    while (Node* const before = Order::left(*node)) node = before;
    return *node;
  }
  /// Return an element with the largest value. The queue must not be empty.
  [[nodiscard]] Node& last() const noexcept {
    Node* node = root_;
    while (Node* const behind = Order::right(*node)) node = behind;
    return *node;
  }
  /// Take out and return the element that first() returns. The queue must not be empty.
  Node& take_first() noexcept {
    Node** link = &root_;
    while (Order::left(**link)) link = &Order::left(**link);
    Node& first = **link;
    *link = Order::right(first);
    return first;
  }
  /// Put in `node`, which stands in no queue.
  void insert(Node& node) noexcept {
    Node** link = &root_;
    while (*link && priority(**link) >= priority(node)) link = &towards(**link, node);
    Node* rest = *link;
    *link = &node;
    Node **smaller = &Order::left(node), **larger = &Order::right(node);
    while (rest) {  // cut in two: what comes before the new element, and what comes after it
      if (before(*rest, node)) {
        *smaller = rest;
        smaller = &Order::right(*rest);
        rest = *smaller;
      } else {
        *larger = rest;
        larger = &Order::left(*rest);
        rest = *larger;
      }
    }
    *smaller = *larger = nullptr;
  }
  /// Take out `node`, which stands in this queue.
  void remove(Node& node) noexcept {
    Node** link = &root_;
    while (*link != &node) link = &towards(**link, node);
    Node *smaller = Order::left(node), *larger = Order::right(node);
    while (smaller && larger) {
      const bool left = priority(*smaller) >= priority(*larger);
      *link = left ? smaller : larger;
      if (left) {
        link = &Order::right(*smaller);
        smaller = *link;
      } else {
        link = &Order::left(*larger);
        larger = *link;
      }
    }
    *link = smaller ? smaller : larger;
  }

 private:
  static bool before(const Node& a, const Node& b) noexcept {
    const auto first = Order::value(a), second = Order::value(b);
    return first != second ? first < second : std::less<>()(&a, &b);
  }
  static Node*& towards(Node& from, const Node& node) noexcept {
    return before(node, from) ? Order::left(from) : Order::right(from);
  }
  static std::uint64_t priority(const Node& node) noexcept {
    auto bits = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(&node)) * 0x9e3779b97f4a7c15U;
    bits ^= bits >> 32;
    return bits * 0xd6e8feb86659fd93U;
  }

  Node* root_ = nullptr;
};

}  // namespace weir::spi
