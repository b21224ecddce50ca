// SPDX-License-Identifier: Apache-2.0
// Protocols that were once in the library and failed in the field. The explorer finds what was wrong with them.

#include <vector>

#include "broken/shard_lock.hpp"
#include "broken/stream_count.hpp"
#include "explore.hpp"

namespace weir::test {
namespace {

using explore::Fault;
using explore::Scene;

struct Locked {
  explicit Locked(bool leans_again) : lock(leans_again) {}

  void use(int times) {
    for (int i = 0; i < times; ++i) {
      lock.lock();
      section.enter();
      section.leave();
      lock.unlock();
    }
  }

  broken::ShardLock lock;
  explore::Section section;
};

/// Each thread takes the lock so often.
explore::Story locked(bool leans_again, const std::vector<int>& times) {
  return [=](Scene& scene) {
    auto& shared = scene.make<Locked>(leans_again);
    scene.name(shared.section, "what the lock protects");
    for (const int so_often : times) scene.thread([&shared, so_often] { shared.use(so_often); });
  };
}

TEST(BrokenLock, LetsTwoThreadsIn) { EXPECT_TRUE(explore::finds(Fault::check, locked(true, {2, 3}))); }

TEST(BrokenLock, HoldsWhileItLeansToOneThreadOnly) {
  EXPECT_TRUE(explore::holds(locked(false, {2, 2})));
  EXPECT_TRUE(explore::holds(locked(false, {2, 1, 1}), {.preemptions = 1}));
}

/// One thread drops the last handle of a stream, another one borrows it.
explore::Story borrowed(bool last_step_first) {
  return [=](Scene& scene) {
    auto& world = scene.make<broken::World>();
    world.last_step_first = last_step_first;
    auto* const stream = new broken::Stream(world, true);
    world.known = stream;
    scene.thread([stream] { stream->release(); });
    scene.thread([&world] {
      auto* const mine = broken::Stream::borrow(world);
      mine->use();
      mine->release();
    });
    scene.finally([&world] { explore::require(!world.known, "no stream is left"); });
  };
}

TEST(BrokenStreamCount, FreesWhatABorrowerUses) {
  EXPECT_TRUE(explore::finds(Fault::lifetime, borrowed(false), {.leaks = false}));
}

TEST(BrokenStreamCount, LosesWhatABorrowerAttaches) { EXPECT_TRUE(explore::finds(Fault::leak, borrowed(false))); }

TEST(BrokenStreamCount, HoldsWhenTheLastStepOfTheCountComesFirst) { EXPECT_TRUE(explore::holds(borrowed(true))); }

}  // namespace
}  // namespace weir::test
