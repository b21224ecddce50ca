// SPDX-License-Identifier: Apache-2.0
// The counts of a stream's uses: who finds the stream by its native handle gains a use, or sees that it has ended; and whoever
// names it last has something to do before it ends, which memory alone cannot do.

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
  sync::Atomic<int> put{0}, covered{0}, ends{0};

  /// With a use in hand.
  void use() {
    require(!uses.ended(), "what is used has not ended");
    require(ends.load(std::memory_order_relaxed) == 0, "nor has what it holds");
    (void)data.get();
  }
  /// With one that names it: something that whoever names it last has to see.
  void put_something() {
    use();
    put.fetch_add(1, std::memory_order_relaxed);
  }
  /// As a stream drops one.
  void release() {
    if (uses.drop()) return;
    use();  // it is one of memory now
    const int seen = put.load(std::memory_order_relaxed);
    auto before = covered.load(std::memory_order_relaxed);
    while (before < seen && !covered.compare_exchange_weak(before, seen, std::memory_order_relaxed)) {
    }
    release_memory();
  }
  void release_memory() {
    if (!uses.drop_memory()) return;
    require(ends.fetch_add(1, std::memory_order_relaxed) == 0, "it ends once");
    require(covered.load(std::memory_order_relaxed) == put.load(std::memory_order_relaxed), "all that was put was seen");
    data = data + 1;  // races with every use that is not over
  }
  bool borrow() {
    if (!uses.try_add()) {
      require(uses.ended(), "only an end keeps it from being borrowed");
      return false;
    }
    put_something();
    release();
    return true;
  }
};

void expect_end(const Used& shared) {
  auto& uses = const_cast<UseCount&>(shared.uses);
  require(shared.ends == 1 && uses.ended(), "in the end nobody uses it");
  require(!uses.try_add(), "and nobody will");
}

explore::Story borrowed(int borrowers, int times) {
  return [=](Scene& scene) {
    auto& shared = scene.make<Used>();
    scene.thread([&shared] {
      shared.put_something();
      shared.release();
    });
    for (int i = 0; i < borrowers; ++i) {
      scene.thread([&shared, times] {
        for (int round = 0; round < times && shared.borrow(); ++round) {
        }
      });
    }
    scene.finally([&shared] { expect_end(shared); });
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
        shared.put_something();
        shared.release();
      });
    }
    scene.thread([&shared] { shared.borrow(); });
    scene.finally([&shared] { expect_end(shared); });
  }));
}

/// Memory keeps it from ending, so that it can be borrowed again; and ends it, but not before whoever named it last is done.
TEST(UseCount, MemoryAgainstTheLastDropAndABorrower) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& shared = scene.make<Used>();
    shared.uses.add_memory();
    scene.thread([&shared] {
      shared.use();
      shared.release_memory();
    });
    scene.thread([&shared] {
      shared.put_something();
      shared.release();
    });
    scene.thread([&shared] { shared.borrow(); });
    scene.finally([&shared] { expect_end(shared); });
  }));
}

/// Whoever owns memory of it may gain one of memory more, for other memory.
TEST(UseCount, MemoryOfTwoOwners) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& shared = scene.make<Used>();
    shared.uses.add_memory();
    scene.thread([&shared] {
      shared.uses.add_memory();
      shared.release_memory();
      shared.use();
      shared.release_memory();
    });
    scene.thread([&shared] { shared.release(); });
    scene.thread([&shared] { shared.borrow(); });
    scene.finally([&shared] { expect_end(shared); });
  }));
}

}  // namespace
}  // namespace weir::test
