// SPDX-License-Identifier: Apache-2.0
// The explorer's forks: what a child finds of the threads that it does not have.

#include <mutex>

#include "explore.hpp"
#include "weir/spi/sync.hpp"

namespace weir::test {
namespace {

using explore::Fault;
using explore::require;
using explore::Scene;

/// T0 stores 1 and then 2. The process in which the other thread goes on after a fork never sees this value.
explore::Story never_sees(int value, bool in_child) {
  return [=](Scene& scene) {
    explore::forget_forks();
    auto& word = scene.make<sync::Atomic<int>>(0);
    scene.thread([&word] {
      word.store(1, std::memory_order_relaxed);
      word.store(2, std::memory_order_relaxed);
    });
    scene.thread([&word, value, in_child] {
      if (explore::fork() == in_child) require(word.load() != value, "it is another one");
    });
  };
}

TEST(Forks, StandBetweenAnyTwoSteps) {
  for (const bool in_child : {false, true}) {
    for (int value = 0; value <= 2; ++value) EXPECT_TRUE(explore::finds(Fault::check, never_sees(value, in_child)));
    EXPECT_TRUE(explore::holds(never_sees(3, in_child)));
  }
}

/// What others do later is not seen in the child.
TEST(Forks, OthersStopInTheChild) {
  const auto story = [](bool in_child) {
    return [in_child](Scene& scene) {
      explore::forget_forks();
      auto& word = scene.make<sync::Atomic<int>>(0);
      scene.thread([&word] { word.store(1, std::memory_order_relaxed); });
      scene.thread([&word, in_child] {
        if (explore::fork() != in_child) return;
        const int first = word.load();
        require(word.load() == first, "it does not change");
      });
    };
  };
  EXPECT_TRUE(explore::holds(story(true)));
  EXPECT_TRUE(explore::finds(Fault::check, story(false)));
}

TEST(Forks, LocksOfOthersStayHeldInTheChild) {
  EXPECT_TRUE(explore::finds(Fault::deadlock, [](Scene& scene) {
    explore::forget_forks();
    auto& mutex = scene.make<sync::Mutex>();
    for (int i = 0; i < 2; ++i) {
      scene.thread([&mutex, i] {
        if (i == 0) (void)explore::fork();
        const std::scoped_lock lock(mutex);
      });
    }
  }));
}

}  // namespace
}  // namespace weir::test
