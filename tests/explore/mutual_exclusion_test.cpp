// SPDX-License-Identifier: Apache-2.0
// Old acquaintances: two threads keep each other out with loads and stores alone.

#include "small_programs.hpp"

namespace weir::test {
namespace {

// ---- Peterson -------------------------------------------------------------------------------------------------------

struct Peterson {
  sync::Atomic<bool> wants_0{false}, wants_1{false};
  sync::Atomic<int> turn{0};
  explore::Section section;

  void use(int self, std::memory_order store, std::memory_order load) {
    auto& mine = self == 0 ? wants_0 : wants_1;
    auto& theirs = self == 0 ? wants_1 : wants_0;
    mine.store(true, store);
    turn.store(1 - self, store);
    for (unsigned i = 0; theirs.load(load) && turn.load(load) != self; ++i) sync::pause(i);
    section.enter();
    section.leave();
    mine.store(false, release);
  }
};

explore::Story peterson(std::memory_order store, std::memory_order load) {
  return [=](Scene& scene) {
    auto& lock = scene.make<Peterson>();
    for (const int self : {0, 1}) {
      scene.thread([&lock, self, store, load] {
        for (int i = 0; i < 2; ++i) lock.use(self, store, load);
      });
    }
  };
}

TEST(Peterson, HoldsWithSequentialConsistency) { EXPECT_TRUE(explore::holds(peterson(seq_cst, seq_cst))); }

TEST(Peterson, FailsWithStoreBuffers) {
  EXPECT_TRUE(explore::finds(Fault::check, peterson(release, acquire), {.old_reads = 0}));
}

/// What x86 forgives.
TEST(Peterson, FailsInCppWhenOnlyItsStoresAreSequentiallyConsistent) {
  EXPECT_TRUE(explore::holds(peterson(seq_cst, acquire), {.old_reads = 0}));
  EXPECT_TRUE(explore::finds(Fault::check, peterson(seq_cst, acquire)));
}

TEST(Peterson, HoldsWhereEveryStoreIsVisibleAtOnce) {
  EXPECT_TRUE(explore::holds(peterson(relaxed, relaxed), {.store_buffers = false, .old_reads = 0}));
}

// ---- Dekker with a barrier on one side only -------------------------------------------------------------------------

enum class Missing { nothing, light, heavy };

/// One thread goes in often and cheaply, another one seldom: what a biased lock does.
template <class Data>
struct Asymmetric {
  sync::Atomic<bool> inside{false}, asked{false};
  Data data{};

  void often(Missing missing) {
    inside.store(true, relaxed);
    if (missing != Missing::light) sync::light_barrier();
    if (!asked.load(acquire)) data.use();
    inside.store(false, release);
  }
  void seldom(Missing missing) {
    asked.store(true, relaxed);
    if (missing != Missing::heavy) sync::heavy_barrier();
    for (unsigned i = 0; inside.load(acquire); ++i) sync::pause(i);
    data.use();
    asked.store(false, release);
  }
};

/// Sees two threads that are there at once.
struct Place {
  explore::Section section;
  void use() {
    section.enter();
    section.leave();
  }
};

/// Sees also what comes one after the other by chance.
struct Value {
  sync::Plain<int> number{0};
  void use() { ++number; }
};

template <class Data>
explore::Story asymmetric(Missing missing) {
  return [=](Scene& scene) {
    auto& lock = scene.make<Asymmetric<Data>>();
    scene.name(lock.inside, "inside");
    scene.name(lock.asked, "asked");
    scene.thread([&lock, missing] {
      for (int i = 0; i < 2; ++i) lock.often(missing);
    });
    scene.thread([&lock, missing] { lock.seldom(missing); });
  };
}

TEST(AsymmetricDekker, HoldsWithBothBarriers) {
  EXPECT_TRUE(explore::holds(asymmetric<Place>(Missing::nothing)));
  EXPECT_TRUE(explore::holds(asymmetric<Value>(Missing::nothing)));
}

TEST(AsymmetricDekker, FailsWithoutTheHeavyBarrier) {
  EXPECT_TRUE(explore::finds(Fault::check, asymmetric<Place>(Missing::heavy)));
  EXPECT_TRUE(explore::finds(Fault::race, asymmetric<Value>(Missing::heavy)));
}

TEST(AsymmetricDekker, FailsWithoutTheLightBarrier) {
  EXPECT_TRUE(explore::finds(Fault::check, asymmetric<Place>(Missing::light)));
  EXPECT_TRUE(explore::finds(Fault::race, asymmetric<Value>(Missing::light)));
}

TEST(AsymmetricDekker, FailsWhereTheHeavyBarrierDoesNothing) {
  EXPECT_TRUE(explore::finds(Fault::check, asymmetric<Place>(Missing::nothing), {.heavy_barrier = false}));
}

}  // namespace
}  // namespace weir::test
