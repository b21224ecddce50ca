// SPDX-License-Identifier: Apache-2.0
// Many threads push, one takes all: the usual way to give something back to another thread without a lock.

#include "small_programs.hpp"

namespace weir::test {
namespace {

struct Node {
  sync::Plain<int> value{0};
  sync::Plain<Node*> next{nullptr};
};

struct Stack {
  sync::Atomic<Node*> first{nullptr};

  void push(Node& node, std::memory_order order) {
    Node* before = first.load(relaxed);
    do {
      node.next = before;
    } while (!first.compare_exchange_weak(before, &node, order, relaxed));
  }
  Node* take_all(std::memory_order order) { return first.exchange(nullptr, order); }
};

explore::Story stack(std::memory_order push, std::memory_order take) {
  return [=](Scene& scene) {
    auto& shared = scene.make<Stack>();
    auto& taken = scene.make<int>(0);
    scene.name(shared.first, "first");
    const auto sum = [](const Node* node) {
      int all = 0;
      for (; node; node = node->next) all += node->value;
      return all;
    };
    for (const int value : {1, 10}) {
      auto& node = scene.make<Node>();
      scene.name(node.value, "value");
      scene.thread([&shared, &node, value, push] {
        node.value = value;
        shared.push(node, push);
      });
    }
    scene.thread([&shared, &taken, sum, take] {
      for (int i = 0; i < 2; ++i) taken += sum(shared.take_all(take));
    });
    scene.finally([&shared, &taken, sum] {
      explore::require(taken + sum(shared.first) == 11, "each node is taken once or still there");
    });
  };
}

TEST(HandOver, LosesNothing) { EXPECT_TRUE(explore::holds(stack(release, acquire))); }

TEST(HandOver, NeedsBothOrders) {
  EXPECT_TRUE(explore::finds(Fault::race, stack(relaxed, acquire)));
  EXPECT_TRUE(explore::finds(Fault::race, stack(release, relaxed)));
}

/// Looks and stores instead of exchanging.
TEST(HandOver, LosesNodesWhenTakenInTwoSteps) {
  EXPECT_TRUE(explore::finds(Fault::check, [](Scene& scene) {
    auto& shared = scene.make<Stack>();
    auto& node = scene.make<Node>();
    auto& taken = scene.make<bool>(false);
    scene.thread([&] { shared.push(node, release); });
    scene.thread([&] {
      taken = shared.first.load(acquire) != nullptr;
      shared.first.store(nullptr, relaxed);
    });
    scene.finally([&] { explore::require(taken || shared.first != nullptr, "the node is somewhere"); });
  }));
}

}  // namespace
}  // namespace weir::test
