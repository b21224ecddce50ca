// SPDX-License-Identifier: Apache-2.0
// Other faults, and what is said of a fault: the simplest schedule, which can be run again.

#include <cstdlib>
#include <mutex>
#include <stdexcept>

#include "small_programs.hpp"

namespace weir::test {
namespace {

TEST(Faults, AWeakCompareExchangeMayFailForNoReason) {
  const auto story = [](bool weak) {
    return [weak](Scene& scene) {
      auto& word = scene.make<sync::Atomic<int>>(0);
      scene.thread([&word, weak] {
        int zero = 0;
        const bool done = weak ? word.compare_exchange_weak(zero, 1) : word.compare_exchange_strong(zero, 1);
        explore::require(done, "nobody else changes the word");
      });
    };
  };
  EXPECT_TRUE(explore::holds(story(false)));
  EXPECT_TRUE(explore::finds(Fault::check, story(true)));
  EXPECT_TRUE(explore::holds(story(true), {.weak_failures = 0}));
}

TEST(Faults, AnExceptionLeavesNoThread) {
  EXPECT_TRUE(explore::finds(Fault::exception, [](Scene& scene) {
    auto& count = scene.make<sync::Atomic<int>>(0);
    for (int i = 0; i < 2; ++i) {
      scene.thread([&] {
        if (count.fetch_add(1) == 1) throw std::runtime_error("the second");
      });
    }
  }));
}

/// Each thread has its own exceptions, also while others run.
TEST(Faults, ThreadsCatchTheirOwnExceptions) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& word = scene.make<sync::Atomic<int>>(0);
    for (int i = 0; i < 2; ++i) {
      scene.thread([&, i] {
        try {
          throw i;
        } catch (int outer) {
          word.fetch_add(1);
          try {
            throw 10 + i;
          } catch (int inner) {
            word.fetch_add(1);
            explore::require(inner == 10 + i, "the inner one is its own");
          }
          word.fetch_add(1);
          try {
            throw;
          } catch (int again) {
            explore::require(outer == i && again == i, "the outer one is its own");
          }
        }
      });
    }
  }));
}

TEST(Faults, AScheduleIsReplayed) {
  const auto first = explore::search(message(release, relaxed));
  ASSERT_EQ(first.fault, Fault::race);
  ASSERT_EQ(setenv("WEIR_EXPLORE_REPLAY", first.schedule.c_str(), 1), 0);
  const auto again = explore::search(message(release, relaxed));
  const auto mended = explore::search(message(release, acquire));
  setenv("WEIR_EXPLORE_REPLAY", "0,3", 1);
  const auto of_another = explore::search(message(release, relaxed));
  setenv("WEIR_EXPLORE_REPLAY", "0,,1", 1);
  EXPECT_THROW((void)explore::search(message(release, relaxed)), std::invalid_argument);
  unsetenv("WEIR_EXPLORE_REPLAY");
  EXPECT_EQ(again.runs, 1U);
  EXPECT_EQ(again.fault, Fault::race);
  EXPECT_EQ(again.message, first.message);
  EXPECT_EQ(again.trace, first.trace);
  EXPECT_EQ(mended.fault, Fault::none) << mended.message;
  EXPECT_EQ(of_another.fault, Fault::unstable);
}

/// The result of a search depends on the program only, so that a schedule means the same tomorrow.
TEST(Faults, SearchesCountTheSame) {
  const auto first = explore::search(message(release, acquire));
  const auto second = explore::search(message(release, acquire));
  EXPECT_EQ(first.runs, second.runs);
  EXPECT_EQ(first.steps, second.steps);
  EXPECT_EQ(first.states, second.states);
}

TEST(Faults, TheSimplestScheduleIsTold) {
  const auto result = explore::search([](Scene& scene) {
    auto& word = scene.make<sync::Atomic<int>>(0);
    for (int i = 0; i < 2; ++i) {
      scene.thread([&word] {
        const int before = word.load(relaxed);
        word.store(before + 1, relaxed);
      });
    }
    scene.finally([&word] { explore::require(word == 2, "both have counted"); });
  });
  EXPECT_EQ(result.fault, Fault::check);
  EXPECT_EQ(result.preemptions, 0U);  // the store of one is still in its buffer
}

/// A thread that is stopped between each two of its steps, so that somebody else comes in.
TEST(Faults, AFaultIsFoundWithAsManyPreemptionsAsItNeeds) {
  for (const unsigned needed : {1U, 2U, 3U}) {
    const auto story = [needed](Scene& scene) {
      auto& word = scene.make<sync::Atomic<unsigned>>(0U);
      scene.thread([&word, needed] {
        for (unsigned i = 0; i < needed; ++i) word.fetch_add(2);
      });
      scene.thread([&word, needed] {
        unsigned turns = 0;
        for (unsigned i = 0; i < needed; ++i) turns += word.fetch_add(2) == 4 * i + 2;
        explore::require(turns != needed, "the threads do not take turns");
      });
    };
    const unsigned preemptions = 2 * needed - 2;  // each thread is stopped but after its last step
    EXPECT_TRUE(explore::finds(Fault::check, story, {.preemptions = preemptions}));
    if (preemptions == 0) continue;
    EXPECT_TRUE(explore::holds(story, {.preemptions = preemptions - 1}));
  }
}

TEST(Faults, AProgramThatChangesBetweenRunsIsReported) {
  int runs = 0;
  EXPECT_TRUE(explore::finds(Fault::unstable, [&runs](Scene& scene) {
    auto& word = scene.make<sync::Atomic<int>>(0);
    const bool odd = ++runs % 2 != 0;
    scene.thread([&word, odd] {
      if (odd) word.store(1);
      word.store(2);
    });
    scene.thread([&word] { word.store(3); });
  }));
}

/// As many steps as before, but others.
TEST(Faults, AProgramThatDoesSomethingElseIsReported) {
  int runs = 0;
  EXPECT_TRUE(explore::finds(Fault::unstable, [&runs](Scene& scene) {
    auto& word = scene.make<sync::Atomic<int>>(0);
    const bool odd = ++runs % 2 != 0;
    for (int i = 0; i < 2; ++i) {
      scene.thread([&word, odd] {
        if (odd) {
          word.store(1, relaxed);
        } else {
          word.load(relaxed);
        }
        word.fetch_add(1);
      });
    }
  }));
}

TEST(Faults, ASearchThatIsCutShortSaysSo) {
  const auto story = [](Scene& scene) {
    auto& word = scene.make<sync::Atomic<int>>(0);
    for (int i = 0; i < 3; ++i) scene.thread([&word] { word.fetch_add(1); });
  };
  EXPECT_TRUE(explore::finds(Fault::unfinished, story, {.runs = 3}));
  EXPECT_TRUE(explore::holds(story));
}

TEST(Faults, OnlyTheHolderUnlocks) {
  EXPECT_TRUE(explore::finds(Fault::check, [](Scene& scene) {
    auto& mutex = scene.make<sync::Mutex>();
    scene.thread([&] { mutex.unlock(); });
  }));
}

}  // namespace
}  // namespace weir::test
