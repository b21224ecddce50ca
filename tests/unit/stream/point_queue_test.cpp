// SPDX-License-Identifier: Apache-2.0
// The queue of points against one that cannot be wrong.
#include "weir/spi/point_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

namespace weir::test {
namespace {

struct Node {
  std::uint64_t value = 0;
  Node *left = nullptr, *right = nullptr;
};
struct Order {
  static std::uint64_t value(const Node& node) { return node.value; }
  static Node*& left(Node& node) { return node.left; }
  static Node*& right(Node& node) { return node.right; }
};
using Queue = spi::PointQueue<Node, Order>;

TEST(PointQueue, IsEmptyAtFirst) { EXPECT_TRUE(Queue().empty()); }

TEST(PointQueue, GivesThemInOrderAlsoThoseOfOneValue) {
  std::vector<Node> nodes(6);
  Queue queue;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].value = std::vector<std::uint64_t>{5, 3, 5, 9, 3, 5}[i];
    queue.insert(nodes[i]);
  }
  EXPECT_EQ(queue.last().value, 9U);
  std::vector<std::uint64_t> values;
  while (!queue.empty()) values.push_back(queue.take_first().value);
  EXPECT_EQ(values, (std::vector<std::uint64_t>{3, 3, 5, 5, 5, 9}));
}

// Depth of what is there; also checks the order of the whole tree.
std::size_t depth(Node* node, std::uint64_t least, std::uint64_t most) {
  if (!node) return 0;
  EXPECT_TRUE(least <= node->value && node->value <= most);
  return 1 + std::max(depth(node->left, least, node->value), depth(node->right, node->value, most));
}

TEST(PointQueue, AgreesWithAMultimapWhateverComes) {
  constexpr std::size_t count = 400;
  for (const unsigned seed : {1U, 2U, 3U, 4U}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::vector<Node> nodes(count);
    std::vector<Node*> out, in;
    for (Node& node : nodes) out.push_back(&node);
    std::multimap<std::uint64_t, Node*> model;
    Queue queue;
    const auto take_any = [&](std::vector<Node*>& from) {
      std::swap(from[random() % from.size()], from.back());
      Node* const node = from.back();
      from.pop_back();
      return node;
    };
    const auto forget = [&](Node* node) {
      auto [at, end] = model.equal_range(node->value);
      while (at != end && at->second != node) ++at;
      ASSERT_NE(at, end) << "it was not there";
      model.erase(at);
      out.push_back(node);
    };
    for (int step = 0; step < 20'000; ++step) {
      const auto what = random() % 8;
      if (what < 4 && !out.empty()) {
        Node* const node = take_any(out);
        node->value = random() % 50;
        queue.insert(*node);
        model.emplace(node->value, node);
        in.push_back(node);
      } else if (what < 6 && !in.empty()) {
        Node* const node = take_any(in);
        queue.remove(*node);
        forget(node);
      } else if (!in.empty()) {
        ASSERT_EQ(queue.first().value, model.begin()->first);
        ASSERT_EQ(queue.last().value, model.rbegin()->first);
        Node& first = queue.take_first();
        in.erase(std::find(in.begin(), in.end(), &first));
        forget(&first);
      }
      ASSERT_EQ(queue.empty(), model.empty());
      if (HasFailure()) return;
    }
  }
}

// The root is what a lone insertion finds, so a copy of the queue's only member shows the tree.
TEST(PointQueue, StaysFlatWhenValuesOnlyGrow) {
  constexpr std::size_t count = 100'000, deepest = 80;  // 2 log2(count) on average; a list would be 100 000 deep
  static_assert(sizeof(Queue) == sizeof(Node*));
  const auto nodes = std::make_unique<Node[]>(count);
  Queue queue;
  for (std::size_t i = 0; i < count; ++i) {
    nodes[i].value = i;
    queue.insert(nodes[i]);
  }
  Node* root = nullptr;
  std::memcpy(&root, &queue, sizeof root);
  EXPECT_LE(depth(root, 0, count), deepest);
}

}  // namespace
}  // namespace weir::test
