// SPDX-License-Identifier: Apache-2.0
// Accesses that nothing orders, and objects that end too early or never: each in the smallest program that has it,
// beside the same program without it.

#include <memory>
#include <mutex>

#include "small_programs.hpp"

namespace weir::test {
namespace {

// ---- data races -----------------------------------------------------------------------------------------------------

TEST(Races, AMessageNeedsBothOrders) {
  EXPECT_TRUE(explore::holds(message(release, acquire)));
  EXPECT_TRUE(explore::finds(Fault::race, message(relaxed, acquire)));
  EXPECT_TRUE(explore::finds(Fault::race, message(release, relaxed)));
}

/// A relaxed read-modify-write passes on what was released before it; a relaxed store does not.
TEST(Races, AReleaseGoesOnThroughReadModifyWrites) {
  const auto story = [](bool as_store) {
    return [as_store](Scene& scene) {
      auto& count = scene.make<sync::Atomic<int>>(0);
      auto& data = scene.make<sync::Plain<int>>(0);
      scene.thread([&] {
        data = 1;
        count.store(1, release);
        if (as_store) count.store(2, relaxed);
      });
      scene.thread([&] {
        int one = 1;
        count.compare_exchange_strong(one, 2, relaxed);
      });
      scene.thread([&] {
        if (count.load(acquire) == 2) explore::require(data == 1, "the data is there");
      });
    };
  };
  EXPECT_TRUE(explore::holds(story(false)));
  EXPECT_TRUE(explore::finds(Fault::race, story(true)));
}

TEST(Races, ReadersDoNotRaceWithEachOther) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& data = scene.make<sync::Plain<int>>(7);
    for (int i = 0; i < 3; ++i) scene.thread([&data] { explore::require(data == 7, "it is as it was made"); });
  }));
}

TEST(Races, AMutexOrders) {
  const auto story = [](bool locked) {
    return [locked](Scene& scene) {
      auto& mutex = scene.make<sync::Mutex>();
      auto& data = scene.make<sync::Plain<int>>(0);
      for (int i = 0; i < 2; ++i) {
        scene.thread([&, locked] {
          std::unique_lock<sync::Mutex> lock(mutex, std::defer_lock);
          if (locked) lock.lock();
          ++data;
        });
      }
      scene.finally([&] { explore::require(data == 2, "both have counted"); });
    };
  };
  EXPECT_TRUE(explore::holds(story(true)));
  EXPECT_TRUE(explore::finds(Fault::race, story(false)));
}

// ---- lifetimes ------------------------------------------------------------------------------------------------------

struct Counted {
  sync::Atomic<int> owners{2};
  sync::Plain<int> data{0};
};

explore::Story drop(std::memory_order order) {
  return [order](Scene& scene) {
    auto* const counted = new Counted;
    for (int i = 0; i < 2; ++i) {
      scene.thread([counted, order] {
        if (counted->owners.fetch_sub(1, order) == 1) delete counted;
      });
    }
  };
}

TEST(Lifetimes, TheLastOwnerDestroys) {
  EXPECT_TRUE(explore::holds(drop(acq_rel)));
  EXPECT_TRUE(explore::finds(Fault::lifetime, drop(relaxed)));
}

TEST(Lifetimes, AnAccessAfterTheEndIsSeen) {
  const auto story = [](Scene& scene) {
    auto* const counted = new Counted;
    scene.thread([counted] { delete counted; });
    scene.thread([counted] { counted->owners.load(relaxed); });
  };
  EXPECT_TRUE(explore::finds(Fault::lifetime, story));
}

TEST(Lifetimes, AMutexIsNotDestroyedWhileItIsHeld) {
  const auto story = [](Scene& scene) {
    auto* const mutex = new sync::Mutex;
    scene.thread([mutex] {
      mutex->lock();
      delete mutex;
    });
  };
  EXPECT_TRUE(explore::finds(Fault::lifetime, story));
}

TEST(Lifetimes, WhatARunLeavesIsALeak) {
  const auto story = [](Scene& scene) {
    auto& taken = scene.make<sync::Atomic<bool>>(false);
    for (int i = 0; i < 2; ++i) {
      scene.thread([&taken] {
        auto made = std::make_unique<int>(1);
        int* volatile seen = made.get();  // else compilers leave the allocation out
        if (seen && taken.exchange(true)) (void)made.release();
      });
    }
  };
  EXPECT_TRUE(explore::finds(Fault::leak, story));
  EXPECT_TRUE(explore::holds(story, {.leaks = false}));
}

}  // namespace
}  // namespace weir::test
