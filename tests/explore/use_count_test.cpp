// SPDX-License-Identifier: Apache-2.0
// The count of a stream's uses: who finds the stream by its native handle gains a use, or sees that it has ended.

#include "weir/spi/use_count.hpp"
#include "explore.hpp"
#include "weir/spi/sync.hpp"

namespace weir::test {
namespace {

using explore::require;
using explore::Scene;
using spi::UseCount;

/// What is there while it is used.
struct Used {
  UseCount uses;
  sync::Plain<int> data{0};
  sync::Atomic<int> ends{0};

  /// With a use in hand.
  void use() {
    require(!uses.ended(), "what is used has not ended");
    require(ends.load(std::memory_order_relaxed) == 0, "nor has what it holds");
    (void)data.get();
  }
  /// As a stream drops one.
  void release() {
    while (!uses.drop()) {
      const auto seen = uses.look();
      if (!UseCount::is_last(seen)) continue;
      if (!uses.end(seen)) continue;
      require(ends.fetch_add(1, std::memory_order_relaxed) == 0, "it ends once");
      data = data + 1;  // races with every use that is not over
      return;
    }
  }
  bool borrow() {
    if (!uses.try_add()) {
      require(uses.ended(), "only an end keeps it from being borrowed");
      return false;
    }
    use();
    release();
    return true;
  }
};

explore::Story borrowed(int borrowers, int times) {
  return [=](Scene& scene) {
    auto& shared = scene.make<Used>();
    scene.thread([&shared] {
      shared.use();
      shared.release();
    });
    for (int i = 0; i < borrowers; ++i) {
      scene.thread([&shared, times] {
        for (int round = 0; round < times && shared.borrow(); ++round) {
        }
      });
    }
    scene.finally([&shared] {
      require(shared.ends == 1 && shared.uses.ended(), "in the end nobody uses it");
      require(!shared.uses.try_add(), "and nobody will");
    });
  };
}

TEST(UseCount, TheLastDropAgainstABorrower) { EXPECT_TRUE(explore::holds(borrowed(1, 2))); }
TEST(UseCount, TheLastDropAgainstTwoBorrowers) { EXPECT_TRUE(explore::holds(borrowed(2, 1))); }

/// Holders who share, and one who borrows.
TEST(UseCount, TwoHoldersDrop) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& shared = scene.make<Used>();
    shared.uses.add();
    for (int i = 0; i < 2; ++i) {
      scene.thread([&shared] {
        shared.use();
        shared.release();
      });
    }
    scene.thread([&shared] { shared.borrow(); });
    scene.finally([&shared] { require(shared.ends == 1, "it has ended"); });
  }));
}

/// What is found out between the look and the end counts only if nobody came and went meanwhile: a borrower may have
/// left something that the stream must not end without.
TEST(UseCount, WhoCameAndWentIsNoticed) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& uses = scene.make<UseCount>();
    auto& left_behind = scene.make<sync::Atomic<bool>>(false);
    scene.thread([&] {
      for (;;) {
        const auto seen = uses.look();
        const bool empty = !left_behind.load(std::memory_order_relaxed);
        if (UseCount::is_last(seen) && uses.end(seen)) {
          require(empty == !left_behind.load(std::memory_order_relaxed), "it ends with what was seen");
          return;
        }
        if (!UseCount::is_last(seen) && uses.drop()) return;
      }
    });
    scene.thread([&] {
      if (!uses.try_add()) return;
      left_behind.store(true, std::memory_order_relaxed);
      while (!uses.drop()) {
        if (const auto seen = uses.look(); UseCount::is_last(seen) && uses.end(seen)) return;
      }
    });
    scene.finally([&] { require(uses.ended(), "it has ended"); });
  }));
}

}  // namespace
}  // namespace weir::test
