// SPDX-License-Identifier: Apache-2.0
// One thread at a time, whether the lock leans or not, and through every change of that.
#include "base/biased_lock.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "threads.hpp"

namespace weir::detail {
namespace {

constexpr int often = 5000;

void take(BiasedLock& lock, int times, long& counter) {
  for (int i = 0; i < times; ++i) {
    const std::scoped_lock guard(lock);
    ++counter;
  }
}

bool can_lean() {
  BiasedLock lock;
  long counter = 0;
  take(lock, often, counter);
  return lock.is_biased();
}

#define REQUIRES_LEANING() \
  if (!can_lean()) GTEST_SKIP() << "no membarrier(2), or the thread sanitizer, which does not know it"

TEST(BiasedLock, LeansToAThreadThatIsAlone) {
  REQUIRES_LEANING();
  BiasedLock lock;
  long counter = 0;
  take(lock, 100, counter);
  EXPECT_FALSE(lock.is_biased()) << "not at once";
  take(lock, 100, counter);
  EXPECT_TRUE(lock.is_biased());
  test::Thread([&] { take(lock, 1, counter); }).join();
  EXPECT_FALSE(lock.is_biased());
  take(lock, 200, counter);
  EXPECT_FALSE(lock.is_biased()) << "less readily now";
  take(lock, often, counter);
  EXPECT_TRUE(lock.is_biased());
  EXPECT_EQ(counter, 401 + often);
}

/// Counts, slowly enough that two who are inside together lose a count.
// Loads and stores, no increment: two at once lose a count.
void count_slowly(BiasedLock& lock, std::atomic<long>& counter) {
  const std::scoped_lock guard(lock);
  const long seen = counter.load(std::memory_order_relaxed);
  for (int i = 0; i < 40; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
  counter.store(seen + 1, std::memory_order_relaxed);
}

// One thread has it nearly alone, again and again another one, and the others intrude meanwhile.
TEST(BiasedLock, KeepsOthersOutWhenItIsStraightened) {
  BiasedLock lock;
  std::atomic<long> counter{0};
  std::atomic<long> expected{0};
  std::atomic<int> intrusions{0};
  constexpr int threads = 3, rounds = 12, intrusions_each = 10, alone_between = 300;
  std::barrier together(threads, [&]() noexcept { intrusions = 0; });
  std::vector<test::Thread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      long counted = 0;
      for (int round = 0; round < rounds; ++round) {
        together.arrive_and_wait();
        if (round % threads == t) {
          for (; intrusions != (threads - 1) * intrusions_each; ++counted) count_slowly(lock, counter);
          continue;
        }
        for (int i = 0; i < intrusions_each; ++i, ++counted) {
          const long before = counter;
          // A thread that only yields takes the processor from the one that counts, on a machine that has much to do.
          while (counter < before + alone_between && i > 0) std::this_thread::sleep_for(std::chrono::microseconds{20});
          count_slowly(lock, counter);
          ++intrusions;
        }
      }
      expected += counted;
    });
  }
  for (auto& thread : running) thread.join();
  EXPECT_EQ(counter, expected);
}

// The lock leaned to a thread that the child does not have.
TEST(BiasedLock, WorksInAForkedChild) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer ends a forked child that starts a thread";
#endif
  BiasedLock lock;
  long counter = 0;
  test::Thread([&] { take(lock, often, counter); }).join();
  lock.lock();  // as pools do around a fork
  const pid_t child = fork();
  lock.unlock();
  if (child == 0) {
    take(lock, often, counter);
    test::Thread([&] { take(lock, 1, counter); }).join();
    _exit(counter == 2 * often + 1 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace weir::detail
