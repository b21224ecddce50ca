// SPDX-License-Identifier: Apache-2.0
// Threads that wait, for each other or for ever.

#include <mutex>

#include "small_programs.hpp"

namespace weir::test {
namespace {

TEST(Waiting, LocksInTwoOrdersAreADeadlock) {
  const auto story = [](bool crossed) {
    return [crossed](Scene& scene) {
      auto& first = scene.make<sync::Mutex>();
      auto& second = scene.make<sync::Mutex>();
      scene.thread([&] {
        const std::lock_guard a(first);
        const std::lock_guard b(second);
      });
      scene.thread([&, crossed] {
        const std::lock_guard a(crossed ? second : first);
        const std::lock_guard b(crossed ? first : second);
      });
    };
  };
  EXPECT_TRUE(explore::holds(story(false)));
  EXPECT_TRUE(explore::finds(Fault::deadlock, story(true)));
}

TEST(Waiting, ALostWakeUpIsADeadlock) {
  const auto story = [](bool locked) {
    return [locked](Scene& scene) {
      auto& mutex = scene.make<sync::Mutex>();
      auto& changed = scene.make<sync::Condition>();
      auto& ready = scene.make<sync::Atomic<bool>>(false);
      scene.thread([&] {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return ready.load(acquire); });
      });
      scene.thread([&, locked] {
        std::unique_lock lock(mutex, std::defer_lock);
        if (locked) lock.lock();
        ready.store(true, release);
        changed.notify_one();
      });
    };
  };
  EXPECT_TRUE(explore::holds(story(true)));
  EXPECT_TRUE(explore::finds(Fault::deadlock, story(false)));
}

/// Two threads wait for different things at one condition, and one of the things happens.
TEST(Waiting, OneNotifiedThreadIsAnyOfThem) {
  const auto story = [](bool all) {
    return [all](Scene& scene) {
      auto& mutex = scene.make<sync::Mutex>();
      auto& changed = scene.make<sync::Condition>();
      auto& turn = scene.make<int>(0);
      for (const int mine : {1, 2}) {
        scene.thread([&, mine] {
          std::unique_lock lock(mutex);
          changed.wait(lock, [&] { return turn == mine; });
          turn = 2;
          changed.notify_all();
        });
      }
      scene.thread([&, all] {
        const std::lock_guard lock(mutex);
        turn = 1;
        all ? changed.notify_all() : changed.notify_one();
      });
    };
  };
  EXPECT_TRUE(explore::holds(story(true)));
  EXPECT_TRUE(explore::finds(Fault::deadlock, story(false)));
}

TEST(Waiting, AllNotifiedThreadsWake) {
  const auto story = [](bool all) {
    return [all](Scene& scene) {
      auto& mutex = scene.make<sync::Mutex>();
      auto& changed = scene.make<sync::Condition>();
      auto& open = scene.make<bool>(false);
      for (int i = 0; i < 2; ++i) {
        scene.thread([&] {
          std::unique_lock lock(mutex);
          changed.wait(lock, [&] { return open; });
        });
      }
      scene.thread([&, all] {
        const std::lock_guard lock(mutex);
        open = true;
        all ? changed.notify_all() : changed.notify_one();
      });
    };
  };
  EXPECT_TRUE(explore::holds(story(true)));
  EXPECT_TRUE(explore::finds(Fault::deadlock, story(false)));
}

/// A store that leaves its buffer wakes whoever waits for it, also while its own thread goes on.
TEST(Waiting, AStoreIsSeenBeforeItsThreadDoesMore) {
  bool found = false;
  const auto story = [&found](Scene& scene) {
    auto& asked = scene.make<sync::Atomic<bool>>(false);
    auto& answered_after = scene.make<sync::Atomic<unsigned>>(0U);  // pauses
    scene.thread([&] {
      asked.store(true, relaxed);
      if (answered_after.load(relaxed) != 0) found = true;
    });
    scene.thread([&] {
      unsigned rounds = 0;
      for (; !asked.load(relaxed); ++rounds) sync::pause(rounds);
      answered_after.store(rounds);
    });
  };
  EXPECT_TRUE(explore::holds(story, {.old_reads = 0}));
  EXPECT_TRUE(found);
}

TEST(Waiting, ATimedWaitEndsEitherWay) {
  int notified = 0, timed_out = 0;
  EXPECT_TRUE(explore::holds([&](Scene& scene) {
    auto& mutex = scene.make<sync::Mutex>();
    auto& changed = scene.make<sync::Condition>();
    auto& ready = scene.make<bool>(false);
    scene.thread([&] {
      std::unique_lock lock(mutex);
      const bool seen = changed.wait_for(lock, std::chrono::milliseconds{1}, [&] { return ready; });
      explore::require(seen == ready, "the answer is what it says");
      ++(seen ? notified : timed_out);
    });
    scene.thread([&] {
      const std::lock_guard lock(mutex);
      ready = true;
      changed.notify_all();
    });
  }));
  EXPECT_GT(notified, 0);
  EXPECT_GT(timed_out, 0);
}

TEST(Waiting, ForSomethingThatNobodyDoesIsADeadlock) {
  EXPECT_TRUE(explore::finds(Fault::deadlock, [](Scene& scene) {
    auto& flag = scene.make<sync::Atomic<bool>>(false);
    scene.thread([&] {
      for (unsigned i = 0; !flag.load(relaxed); ++i) sync::pause(i);
    });
    scene.thread([&] { flag.store(false, relaxed); });
  }));
}

/// Two threads that look at what a mutex protects, again and again, and one that changes it in the end.
TEST(Waiting, PausesLetOthersGoOn) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& mutex = scene.make<sync::Mutex>();
    auto& ready = scene.make<sync::Plain<bool>>(false);
    for (int i = 0; i < 2; ++i) {
      scene.thread([&] {
        for (unsigned round = 0;; ++round) {
          {
            const std::lock_guard lock(mutex);
            if (ready) return;
          }
          sync::pause(round);
        }
      });
    }
    scene.thread([&] {
      const std::lock_guard lock(mutex);
      ready = true;
    });
  }));
}

TEST(Waiting, ALoopWithoutAPauseIsEndless) {
  EXPECT_TRUE(explore::finds(Fault::endless, [](Scene& scene) {
    auto& flag = scene.make<sync::Atomic<bool>>(false);
    scene.thread([&] {
      while (!flag.load(relaxed)) {
      }
    });
    scene.thread([&] { flag.store(true, relaxed); });
  }));
}

}  // namespace
}  // namespace weir::test
