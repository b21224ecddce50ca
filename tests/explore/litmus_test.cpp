// SPDX-License-Identifier: Apache-2.0
// The memory of the explorer: small programs whose results are known, on x86 and in C++. Sources: Owens, Sarkar,
// Sewell, "A Better x86 Memory Model: x86-TSO" (2009), and the manuals of Intel and AMD that it quotes; Batty and
// others, "Mathematizing C++ Concurrency" (2011).

#include <initializer_list>
#include <set>
#include <string>

#include "heap.hpp"
#include "small_programs.hpp"

namespace weir::test {
namespace {

using Outcomes = std::set<std::string>;

struct Machine {
  sync::Atomic<int> x{0}, y{0}, z{0};
  int a = 0, b = 0, c = 0, d = 0;  // what the threads read
};

using Result = std::initializer_list<int Machine::*>;

/// Every result of the threads, written as the numbers that `result` names.
template <class... Thread>
Outcomes outcomes_with(const explore::Options& options, Result result, Thread... threads) {
  Outcomes seen;
  EXPECT_TRUE(explore::holds(
      [&](Scene& scene) {
        auto& machine = scene.make<Machine>();
        (scene.thread([&machine, threads] { threads(machine); }), ...);
        scene.finally([&machine, &result, &seen] {
          const explore::UntrackedHeap outside;
          std::string text;
          for (const auto number : result) text += std::to_string(machine.*number);
          seen.insert(text);
        });
      },
      options));
  return seen;
}

/// On x86.
template <class... Thread>
Outcomes outcomes(Result result, Thread... threads) {
  return outcomes_with({.old_reads = 0}, result, threads...);
}

/// In C++, as long as at most two loads see an old value.
template <class... Thread>
Outcomes outcomes_in_cpp(Result result, Thread... threads) {
  return outcomes_with({.old_reads = 2}, result, threads...);
}

TEST(Litmus, AStoreIsDelayedBehindALoad) {
  EXPECT_EQ(outcomes(
                {&Machine::a, &Machine::b}, [](Machine& m) { m.x.store(1, relaxed), m.a = m.y.load(relaxed); },
                [](Machine& m) { m.y.store(1, relaxed), m.b = m.x.load(relaxed); }),
            (Outcomes{"00", "01", "10", "11"}));
}

TEST(Litmus, OneFenceDoesNotHelp) {
  EXPECT_EQ(outcomes(
                {&Machine::a, &Machine::b}, [](Machine& m) { m.x.store(1, seq_cst), m.a = m.y.load(relaxed); },
                [](Machine& m) { m.y.store(1, relaxed), m.b = m.x.load(relaxed); }),
            (Outcomes{"00", "01", "10", "11"}));
}

TEST(Litmus, SequentialConsistencyOrdersStoresBeforeLoads) {
  EXPECT_EQ(
      outcomes(
          {&Machine::a, &Machine::b}, [](Machine& m) { m.x = 1, m.a = m.y; }, [](Machine& m) { m.y = 1, m.b = m.x; }),
      (Outcomes{"01", "10", "11"}));
}

TEST(Litmus, AReadModifyWriteEmptiesTheBuffer) {
  EXPECT_EQ(outcomes(
                {&Machine::a, &Machine::b}, [](Machine& m) { m.x.exchange(1, relaxed), m.a = m.y.load(relaxed); },
                [](Machine& m) { m.y.exchange(1, relaxed), m.b = m.x.load(relaxed); }),
            (Outcomes{"01", "10", "11"}));
}

TEST(Litmus, AMutexEmptiesTheBuffer) {
  Outcomes seen;
  EXPECT_TRUE(explore::holds(
      [&](Scene& scene) {
        auto& m = scene.make<Machine>();
        auto& mutex = scene.make<sync::Mutex>();
        auto& other = scene.make<sync::Mutex>();
        scene.thread([&] {
          m.x.store(1, relaxed);
          mutex.lock();
          m.a = m.y.load(relaxed);
          mutex.unlock();
        });
        scene.thread([&] {
          other.lock();
          m.y.store(1, relaxed);
          other.unlock();
          m.b = m.x.load(relaxed);
        });
        scene.finally([&] {
          const explore::UntrackedHeap outside;
          seen.insert(std::to_string(m.a) + std::to_string(m.b));
        });
      },
      {.old_reads = 0}));
  EXPECT_EQ(seen, (Outcomes{"01", "10", "11"}));
}

TEST(Litmus, StoresStayInOrderAndSoDoLoads) {
  EXPECT_EQ(outcomes(
                {&Machine::a, &Machine::b}, [](Machine& m) { m.x.store(1, relaxed), m.y.store(1, relaxed); },
                [](Machine& m) { m.a = m.y.load(relaxed), m.b = m.x.load(relaxed); }),
            (Outcomes{"00", "01", "11"}));
}

TEST(Litmus, ALoadIsNotDelayedBehindAStore) {
  EXPECT_EQ(outcomes(
                {&Machine::a, &Machine::b}, [](Machine& m) { m.a = m.x.load(relaxed), m.y.store(1, relaxed); },
                [](Machine& m) { m.b = m.y.load(relaxed), m.x.store(1, relaxed); }),
            (Outcomes{"00", "01", "10"}));
}

TEST(Litmus, AThreadSeesItsOwnStoresEarly) {
  EXPECT_TRUE(outcomes(
                  {&Machine::a, &Machine::b, &Machine::c, &Machine::d},
                  [](Machine& m) { m.x.store(1, relaxed), m.a = m.x.load(relaxed), m.b = m.y.load(relaxed); },
                  [](Machine& m) { m.y.store(1, relaxed), m.c = m.y.load(relaxed), m.d = m.x.load(relaxed); })
                  .contains("1010"));
}

TEST(Litmus, AllThreadsSeeStoresInOneOrder) {
  const auto seen = outcomes(
      {&Machine::a, &Machine::b, &Machine::c, &Machine::d}, [](Machine& m) { m.x.store(1, relaxed); },
      [](Machine& m) { m.y.store(1, relaxed); }, [](Machine& m) { m.a = m.x.load(relaxed), m.b = m.y.load(relaxed); },
      [](Machine& m) { m.c = m.y.load(relaxed), m.d = m.x.load(relaxed); });
  EXPECT_EQ(seen.size(), 15U);
  EXPECT_FALSE(seen.contains("1010"));
}

TEST(Litmus, AStoreThatWasSeenIsInMemory) {
  const auto seen = outcomes(
      {&Machine::a, &Machine::b, &Machine::c}, [](Machine& m) { m.x.store(1, relaxed); },
      [](Machine& m) { m.a = m.x.load(relaxed), m.y.store(1, relaxed); },
      [](Machine& m) { m.b = m.y.load(relaxed), m.c = m.x.load(relaxed); });
  EXPECT_FALSE(seen.contains("110"));
  EXPECT_TRUE(seen.contains("111"));
}

TEST(Litmus, TheLastStoreInMemoryWins) {
  const auto end = [](Machine& m) { m.a = m.x.load(relaxed), m.b = m.y.load(relaxed); };
  Outcomes seen;
  EXPECT_TRUE(explore::holds(
      [&](Scene& scene) {
        auto& m = scene.make<Machine>();
        scene.thread([&m] { m.x.store(1, relaxed), m.y.store(2, relaxed); });
        scene.thread([&m] { m.y.store(1, relaxed), m.x.store(2, relaxed); });
        scene.finally([&] {
          end(m);
          const explore::UntrackedHeap outside;
          seen.insert(std::to_string(m.a) + std::to_string(m.b));
        });
      },
      {.old_reads = 0}));
  EXPECT_EQ(seen, (Outcomes{"12", "21", "22"}));
}

TEST(Litmus, WithoutBuffersEveryStoreIsVisibleAtOnce) {
  EXPECT_TRUE(explore::holds(
      [](Scene& scene) {
        auto& m = scene.make<Machine>();
        scene.thread([&m] { m.x.store(1, relaxed), m.a = m.y.load(relaxed); });
        scene.thread([&m] { m.y.store(1, relaxed), m.b = m.x.load(relaxed); });
        scene.finally([&m] { explore::require(m.a + m.b != 0, "one of them sees the other"); });
      },
      {.store_buffers = false, .old_reads = 0}));
}

// ---- barriers -------------------------------------------------------------------------------------------------------

TEST(LitmusOfBarriers, BothMakeAFence) {
  const auto seen = [](bool light) {
    return outcomes(
        {&Machine::a, &Machine::b},
        [light](Machine& m) {
          m.x.store(1, relaxed);
          if (light) sync::light_barrier();
          m.a = m.y.load(relaxed);
        },
        [](Machine& m) {
          m.y.store(1, relaxed);
          sync::heavy_barrier();
          m.b = m.x.load(relaxed);
        });
  };
  EXPECT_EQ(seen(true), (Outcomes{"01", "10", "11"}));
  EXPECT_EQ(seen(false), (Outcomes{"00", "01", "10", "11"}));  // the compiler may load first
}

/// The kernel reaches the threads one by one.
TEST(LitmusOfBarriers, TheHeavyOneReachesThreadsAtDifferentMoments) {
  const auto seen = outcomes(
      {&Machine::a, &Machine::b, &Machine::c},
      [](Machine& m) {
        m.z.store(1);
        sync::heavy_barrier();
        m.a = m.y.load(relaxed);
      },
      [](Machine& m) {
        m.x.store(1, relaxed);
        sync::light_barrier();
        m.b = m.z.load(relaxed);  // 0: the store before is one that the heavy barrier waits for
      },
      [](Machine& m) {
        m.y.store(1, relaxed);
        sync::light_barrier();
        m.c = m.x.load(relaxed);
      });
  EXPECT_TRUE(seen.contains("000"));
}

/// What precedes a heavy barrier is known to a thread after its next light one, and maybe not before.
TEST(LitmusOfBarriers, TheHeavyOneIsKnownAfterALightOne) {
  const auto seen = [](bool light_first) {
    return outcomes_in_cpp(
        {&Machine::a, &Machine::b},
        [](Machine& m) {
          m.x.store(1, relaxed);
          sync::heavy_barrier();
          m.y.store(1, relaxed);
        },
        [light_first](Machine& m) {
          if (light_first) sync::light_barrier();
          m.a = m.y.load(relaxed);
          if (!light_first) sync::light_barrier();
          m.b = m.x.load(relaxed);
        });
  };
  EXPECT_EQ(seen(true), (Outcomes{"00", "01", "10", "11"}));
  EXPECT_EQ(seen(false), (Outcomes{"00", "01", "11"}));
}

// ---- beyond x86 -----------------------------------------------------------------------------------------------------

const auto sent = [](std::memory_order order) {
  return [order](Machine& m) { m.x.store(1, relaxed), m.y.store(1, order); };
};
const auto received = [](std::memory_order order) {
  return [order](Machine& m) { m.a = m.y.load(order), m.b = m.x.load(relaxed); };
};

TEST(LitmusInCpp, AMessageNeedsBothOrders) {
  const Outcomes all{"00", "01", "10", "11"}, ordered{"00", "01", "11"};
  EXPECT_EQ(outcomes_in_cpp({&Machine::a, &Machine::b}, sent(relaxed), received(relaxed)), all);
  EXPECT_EQ(outcomes_in_cpp({&Machine::a, &Machine::b}, sent(release), received(relaxed)), all);
  EXPECT_EQ(outcomes_in_cpp({&Machine::a, &Machine::b}, sent(relaxed), received(acquire)), all);
  EXPECT_EQ(outcomes_in_cpp({&Machine::a, &Machine::b}, sent(release), received(acquire)), ordered);
  EXPECT_EQ(outcomes_in_cpp({&Machine::a, &Machine::b}, sent(seq_cst), received(seq_cst)), ordered);
}

TEST(LitmusInCpp, ValuesOfOneObjectComeInOrder) {
  const auto seen = outcomes_in_cpp(
      {&Machine::a, &Machine::b}, [](Machine& m) { m.x.store(1, relaxed), m.x.store(2, relaxed); },
      [](Machine& m) { m.a = m.x.load(relaxed), m.b = m.x.load(relaxed); });
  EXPECT_EQ(seen, (Outcomes{"00", "01", "02", "11", "12", "22"}));
}

TEST(LitmusInCpp, ThreadsMaySeeStoresInDifferentOrders) {
  const auto seen = [](std::memory_order order) {
    return outcomes_in_cpp(
        {&Machine::a, &Machine::b, &Machine::c, &Machine::d}, [order](Machine& m) { m.x.store(1, order); },
        [order](Machine& m) { m.y.store(1, order); },
        [order](Machine& m) { m.a = m.x.load(order), m.b = m.y.load(order); },
        [order](Machine& m) { m.c = m.y.load(order), m.d = m.x.load(order); });
  };
  const auto weak = outcomes_in_cpp(
      {&Machine::a, &Machine::b, &Machine::c, &Machine::d}, [](Machine& m) { m.x.store(1, release); },
      [](Machine& m) { m.y.store(1, release); }, [](Machine& m) { m.a = m.x.load(acquire), m.b = m.y.load(acquire); },
      [](Machine& m) { m.c = m.y.load(acquire), m.d = m.x.load(acquire); });
  EXPECT_EQ(weak.size(), 16U);
  EXPECT_EQ(seen(relaxed).size(), 16U);
  EXPECT_EQ(seen(seq_cst).size(), 15U);
}

TEST(LitmusInCpp, ARelaxedReadModifyWriteIsNoFence) {
  EXPECT_EQ(outcomes_in_cpp(
                {&Machine::a, &Machine::b}, [](Machine& m) { m.x.exchange(1, relaxed), m.a = m.y.load(relaxed); },
                [](Machine& m) { m.y.exchange(1, relaxed), m.b = m.x.load(relaxed); }),
            (Outcomes{"00", "01", "10", "11"}));
}

TEST(LitmusInCpp, AReadModifyWriteSeesTheLastValue) {
  EXPECT_EQ(outcomes_in_cpp(
                {&Machine::a, &Machine::b}, [](Machine& m) { m.a = m.x.fetch_add(1, relaxed); },
                [](Machine& m) { m.b = m.x.fetch_add(1, relaxed); }),
            (Outcomes{"01", "10"}));
}

}  // namespace
}  // namespace weir::test
