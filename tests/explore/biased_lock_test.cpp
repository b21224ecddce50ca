// SPDX-License-Identifier: Apache-2.0
// The lock that leans to a thread.

#include <array>
#include <vector>

#include "base/biased_lock.hpp"
#include "explore.hpp"
#include "weir/spi/sync.hpp"

namespace weir::test {
namespace {

using detail::BiasedLock;
using explore::Fault;
using explore::require;
using explore::Scene;

constexpr sync::ThreadId thread(int number) { return 0x1000U * static_cast<unsigned>(number + 1); }  // of a scene

struct Locked {
  Locked() = default;
  explicit Locked(sync::ThreadId owner) : lock(owner) {}

  /// What the lock is for: nobody else is here, and what others did here has happened.
  void change() {
    section.enter();
    ++value;
    section.leave();
  }
  void use(int times = 1) {
    for (int i = 0; i < times; ++i) {
      lock.lock();
      change();
      lock.unlock();
    }
  }
  /// As a pool's usual way does it: without a call when it leans, else as everybody.
  void use_quickly() {
    if (auto* const seat = lock.enter()) {
      change();
      BiasedLock::exit(seat);
    } else {
      use();
    }
  }

  BiasedLock lock;
  explore::Section section;
  sync::Plain<int> value{0};
};

/// Each thread takes the lock so often.
explore::Story taken(const std::vector<int>& times) {
  return [=](Scene& scene) {
    auto& shared = scene.make<Locked>();
    int sum = 0;
    for (const int so_often : times) {
      scene.thread([&shared, so_often] { shared.use(so_often); });
      sum += so_often;
    }
    scene.finally([&shared, sum] { require(shared.value == sum, "each one is counted"); });
  };
}

// It leans after so many more rounds than sync::often that a thread takes it in a row, ever later.

TEST(BiasedLock, TwoThreads) {
  EXPECT_TRUE(explore::holds(taken({2, 2})));
  EXPECT_TRUE(explore::holds(taken({4, 2})));
}

TEST(BiasedLock, LeansToOneAndThenToAnother) { EXPECT_TRUE(explore::holds(taken({4, 6}))); }

TEST(BiasedLock, ThreeThreads) { EXPECT_TRUE(explore::holds(taken({4, 2, 1}))); }

TEST(BiasedLock, NeverLeansWithoutBarriers) {
  EXPECT_TRUE(explore::holds(
      [](Scene& scene) {
        taken({5, 2})(scene);
        auto& lock = scene.make<Locked>(thread(2)).lock;
        scene.thread([&lock] { require(!lock.is_biased(), "it leans to nobody"); });
      },
      {.preemptions = 2, .heavy_barrier = false}));
}

/// The tests above would say little otherwise.
TEST(BiasedLock, DoesLeanInThese) {
  const auto leaning = [](int before, int after) {
    return [=](Scene& scene) {
      auto& shared = scene.make<Locked>();
      auto& turn = scene.make<sync::Atomic<int>>(0);
      scene.thread([&, before] {
        shared.use(before);
        turn.store(1);
      });
      scene.thread([&, after] {
        for (unsigned i = 0; turn.load() == 0; ++i) sync::pause(i);
        shared.use(after);
        require(!shared.lock.is_biased(), "it leans to nobody");
      });
    };
  };
  EXPECT_TRUE(explore::finds(Fault::check, leaning(3, 0)));
  EXPECT_TRUE(explore::holds(leaning(3, 1)));
  EXPECT_TRUE(explore::finds(Fault::check, leaning(3, 6)));
}

/// The lock of a pool's cache: its owner comes often, others seldom.
explore::Story owned(int often, const std::vector<int>& seldom) {
  return [=](Scene& scene) {
    auto& shared = scene.make<Locked>(thread(0));
    scene.thread([&shared, often] {
      for (int i = 0; i < often; ++i) shared.use_quickly();
    });
    for (const int times : seldom) scene.thread([&shared, times] { shared.use(times); });
  };
}

TEST(OwnedLock, TwoThreads) { EXPECT_TRUE(explore::holds(owned(3, {2}))); }
TEST(OwnedLock, ThreeThreads) { EXPECT_TRUE(explore::holds(owned(2, {1, 1}))); }

/// The owner as a visitor of its own lock.
TEST(OwnedLock, ItsOwnerVisits) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& shared = scene.make<Locked>(thread(0));
    scene.thread([&shared] {
      require(!shared.lock.begin_visit(), "it need not wait for itself");
      require(shared.lock.is_outside(), "and is outside");
      shared.change();
      shared.lock.end_visit();
      shared.use_quickly();
    });
    scene.thread([&shared] { shared.use(2); });
  }));
}

/// Many locks, one barrier: as a pool looks into its caches, and as it forks.
struct Caches {
  std::array<Locked, 2> caches{Locked{thread(0)}, Locked{thread(1)}};

  enum class Patience { endless, none };
  void visit(Patience patience) {
    bool somebody_inside = false;
    for (Locked& cache : caches) somebody_inside = cache.lock.begin_visit() || somebody_inside;
    if (somebody_inside) sync::heavy_barrier();
    for (Locked& cache : caches) {
      if (patience == Patience::endless) cache.lock.wait_outside();
      if (cache.lock.is_outside()) cache.change();
    }
    for (Locked& cache : caches) cache.lock.end_visit();
  }
};

explore::Story visited(Caches::Patience patience, int visitors) {
  return [=](Scene& scene) {
    auto& all = scene.make<Caches>();
    scene.thread([&all] {
      for (int i = 0; i < 2; ++i) all.caches[0].use_quickly();
    });
    if (visitors == 1) scene.thread([&all] { all.caches[1].use_quickly(); });
    for (int i = 0; i < visitors; ++i) scene.thread([&all, patience] { all.visit(patience); });
  };
}

TEST(ManyLocks, OneBarrierForAll) {
  EXPECT_TRUE(explore::holds(visited(Caches::Patience::endless, 1), {.preemptions = 2}));
}
TEST(ManyLocks, WhoIsInsideIsLeftAlone) {
  EXPECT_TRUE(explore::holds(visited(Caches::Patience::none, 1), {.preemptions = 2}));
}
TEST(ManyLocks, TwoVisitors) { EXPECT_TRUE(explore::holds(visited(Caches::Patience::endless, 2), {.preemptions = 2})); }

/// All of them are held while the process forks, and users of them go on afterwards.
TEST(ManyLocks, AreHeldTogether) {
  EXPECT_TRUE(explore::holds(
      [](Scene& scene) {
        auto& first = scene.make<Locked>();
        auto& second = scene.make<Locked>();
        scene.thread([&] {
          first.lock.lock();
          second.lock.lock();
          first.change();
          second.change();
          first.lock.unlock();
          second.lock.unlock();
        });
        scene.thread([&] { first.use(3); });
        scene.thread([&] { second.use(1); });
      },
      {.preemptions = 2}));
}

/// Threads of the process in the middle of the lock while it forks. The child has only the thread that forked, which
/// finds the lock free, and may fork again.
void fork_and_use(Locked& shared) {
  shared.lock.fork(spi::ForkMoment::before);
  shared.change();
  const bool child = explore::fork();
  shared.lock.fork(child ? spi::ForkMoment::child : spi::ForkMoment::parent);
  shared.use();
  if (!child) return;
  shared.lock.fork(spi::ForkMoment::before);
  shared.change();
  shared.lock.fork(spi::ForkMoment::parent);
}

TEST(ForkedLock, ItsOwnerComesIn) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    explore::forget_forks();
    auto& shared = scene.make<Locked>(thread(0));
    scene.thread([&shared] {
      for (int i = 0; i < 2; ++i) shared.use_quickly();
    });
    scene.thread([&shared] { fork_and_use(shared); });
  }));
}

TEST(ForkedLock, OthersComeWhileItsOwnerForks) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    explore::forget_forks();
    auto& shared = scene.make<Locked>(thread(0));
    scene.thread([&shared] {
      shared.use_quickly();
      fork_and_use(shared);
      shared.use_quickly();
    });
    scene.thread([&shared] { shared.use(2); });
  }));
}

TEST(ForkedLock, LeansToOneAndThenToAnother) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    explore::forget_forks();
    auto& shared = scene.make<Locked>();
    scene.thread([&shared] { shared.use(4); });
    scene.thread([&shared] {
      fork_and_use(shared);
      shared.use(4);
    });
  }));
}

/// A thread that the lock leans to ends, and a new one has its number.
TEST(BiasedLock, AThreadEndsAndAnotherOneIsTakenForIt) {
  EXPECT_TRUE(explore::holds(
      [](Scene& scene) {
        auto& shared = scene.make<Locked>();
        auto& ended = scene.make<sync::Atomic<bool>>(false);
        scene.thread([&] {
          shared.use(4);
          ended.store(true, std::memory_order_release);
        });
        scene.thread([&] {
          for (unsigned i = 0; !ended.load(std::memory_order_acquire); ++i) sync::pause(i);
          explore::running->system_id() = thread(0);
          shared.use(2);
        });
        scene.thread([&shared] { shared.use(2); });
      },
      {.preemptions = 2}));
}

}  // namespace
}  // namespace weir::test
