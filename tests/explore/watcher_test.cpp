// SPDX-License-Identifier: Apache-2.0
// What waits for points of a timeline, and the library's thread that looks after it.

#include <array>
#include <cstdint>

#include "explore.hpp"
#include "stream/releases.hpp"
#include "stream/watcher.hpp"
#include "timeline.hpp"

namespace weir::test {
namespace {

using explore::require;
using explore::Scene;

struct Counted : spi::Job {
  Counted() {
    run = [](spi::Job& job) noexcept { static_cast<Counted&>(job).runs.fetch_add(1); };
  }
  sync::Atomic<int> runs{0};
};

/// Two threads hand over, while the thread of the library comes and leaves.
TEST(Watcher, DoesEachJobOnce) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    begin_world();
    auto& jobs = scene.make<std::array<Counted, 3>>();
    scene.thread([&jobs] {
      detail::Watcher::get().post(jobs[0]);
      detail::Watcher::get().post(jobs[1]);
    });
    scene.thread([&jobs] { detail::Watcher::get().post(jobs[2]); });
    scene.finally([&jobs] {
      for (const auto& job : jobs) require(job.runs == 1, "it is done once");
    });
  }));
}

/// A job that is handed over again by what it does.
TEST(Watcher, TakesAJobBackFromItself) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    begin_world();
    auto& job = scene.make<Counted>();
    job.run = [](spi::Job& again) noexcept {
      if (static_cast<Counted&>(again).runs.fetch_add(1) == 0) detail::Watcher::get().post(again);
    };
    scene.thread([&job] { detail::Watcher::get().post(job); });
    scene.finally([&job] { require(job.runs == 2, "it is done twice"); });
  }));
}

struct Waiting : spi::Waiter {
  explicit Waiting(const Timeline& on) : timeline(on) {}
  static void passed(spi::Waiter& waiter, spi::InHand& /*others*/) noexcept {
    auto& self = static_cast<Waiting&>(waiter);
    require(self.timeline.known_reached(self.value), "what it waited for has passed");
    require(self.calls.fetch_add(1) == 0, "it is told once");
  }
  const Timeline& timeline;
  std::uint64_t value = 0;
  sync::Atomic<int> calls{0};
};

/// A timeline with so many marked values, which ends in the scene.
Timeline& marked(Scene& scene, int values) {
  begin_world();
  auto& timeline = *new Timeline;
  for (int i = 0; i < values; ++i) timeline.put(spi::MarkOp{});
  (void)scene;
  return timeline;
}

/// `add(waiter, value)`; the library's thread looks.
void wait_for(Timeline& timeline, Waiting& waiting, std::uint64_t value, bool watched) {
  waiting.value = value;
  if (timeline.after(value, waiting, &Waiting::passed, watched)) return;
  spi::InHand nothing;
  Waiting::passed(waiting, nothing);
}

/// One waits while the device gets there.
TEST(Waiters, AreToldWhenTheirValueHasPassed) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& timeline = marked(scene, 1);
    auto& waiting = scene.make<Waiting>(timeline);
    scene.thread([&] {
      wait_for(timeline, waiting, 1, true);
      timeline.release();
    });
    timeline.retain();
    scene.thread([&] {
      timeline.finish(1);
      timeline.release();
    });
    scene.finally([&] { require(waiting.calls == 1, "it was told"); });
  }));
}

/// The queue is emptied and left by the library's thread while a second one comes.
TEST(Waiters, TheSecondComesWhileTheThreadLeaves) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& timeline = marked(scene, 2);
    auto& first = scene.make<Waiting>(timeline);
    auto& second = scene.make<Waiting>(timeline);
    timeline.finish(1);
    scene.thread([&] {
      wait_for(timeline, first, 1, true);
      wait_for(timeline, second, 2, true);
      timeline.finish(2);
      timeline.release();
    });
    scene.finally([&] { require(first.calls == 1 && second.calls == 1, "both were told"); });
  }));
}

/// Whoever asks the stream and the library's thread both look.
TEST(Waiters, AreToldOnceThoughTwoLook) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& timeline = marked(scene, 2);
    auto& first = scene.make<Waiting>(timeline);
    auto& second = scene.make<Waiting>(timeline);
    wait_for(timeline, first, 1, false);
    timeline.retain();
    scene.thread([&] {
      wait_for(timeline, second, 2, true);
      timeline.finish(2);
      timeline.release();
    });
    scene.thread([&] {
      timeline.settle();
      timeline.release();
    });
    scene.finally([&] { require(first.calls == 1 && second.calls == 1, "each was told"); });
  }));
}

/// What nobody watched is watched from some moment on, as when a pool loses its handle.
TEST(Waiters, AreWatchedFromThenOn) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& timeline = marked(scene, 2);
    auto& first = scene.make<Waiting>(timeline);
    auto& second = scene.make<Waiting>(timeline);
    auto& added = scene.make<sync::Atomic<bool>>(false);
    timeline.retain();
    scene.thread([&] {
      timeline.finish(1);
      wait_for(timeline, first, 1, false);
      wait_for(timeline, second, 2, false);
      added.store(true);
      for (unsigned i = 0; first.calls == 0; ++i) sync::pause(i);
      timeline.finish(2);
      timeline.release();
    });
    scene.thread([&] {
      const bool there = added.load();
      timeline.watch();
      if (!there) {
        for (unsigned i = 0; !added.load(); ++i) sync::pause(i);
        timeline.watch();
      }
      timeline.release();
    });
    scene.finally([&] { require(first.calls == 1 && second.calls == 1, "both were told"); });
  }));
}

/// Nobody watches the second one, whose value is not marked. The library's thread has no reason to mark it.
TEST(Waiters, AreNotAskedForUnlessTheyAreWatched) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& timeline = marked(scene, 1);
    auto& first = scene.make<Waiting>(timeline);
    auto& second = scene.make<Waiting>(timeline);
    timeline.flush();
    timeline.put(Timeline::copy(1));
    scene.thread([&] {
      timeline.finish(1);
      wait_for(timeline, first, 1, true);
      wait_for(timeline, second, 2, false);
      for (unsigned i = 0; first.calls == 0; ++i) sync::pause(i);
      require(timeline.marked() == 1, "nothing more is marked");
      timeline.finish(2);
      timeline.settle();
      timeline.release();
    });
    scene.finally([&] { require(second.calls == 1, "it was told"); });
  }));
}

// ---- queues of releases ---------------------------------------------------------------------------------------------

class Thing final : public detail::Release {
 public:
  using How = spi::Points::How;
  void wait_for(Timeline& timeline, std::uint64_t value, How how = How::keep) { points().add(timeline, value, how); }
  sync::Atomic<int> runs{0};

 private:
  void run() noexcept override { runs.fetch_add(1); }
};

/// Whoever drains returns when all that was handed in before is done, by whomever.
TEST(Releases, ADrainWaitsForWhatIsInHand) {
  EXPECT_TRUE(explore::holds(
      [](Scene& scene) {
        auto& timeline = marked(scene, 1);
        auto& queue = scene.make<detail::ReleaseQueue>(device());
        auto& things = scene.make<std::array<Thing, 2>>();
        for (Thing& thing : things) thing.wait_for(timeline, 1);
        timeline.retain();
        scene.thread([&] {
          queue.add(things[0]);
          queue.drain();
          require(things[0].runs == 1, "it is done");
          timeline.release();
        });
        scene.thread([&] {
          queue.add(things[1]);
          timeline.finish(1);
          timeline.release();
        });
        scene.finally([&] {
          for (const auto& thing : things) require(thing.runs == 1, "each is done once");
        });
      },
      {.preemptions = 2}));
}

/// An application's stream is in use by nothing but a buffer that was copied there, and nobody has marked that point.
/// With the close of the buffer the stream is the application's to destroy.
TEST(Releases, ThePointOfAStreamThatClosesWithThemComes) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    begin_world();
    auto& timeline = *new Timeline(Timeline::Kind::foreign);
    auto& queue = scene.make<detail::ReleaseQueue>(device());
    auto& thing = scene.make<Thing>();
    scene.thread([&] {
      thing.wait_for(timeline, timeline.put(Timeline::copy(1)), Thing::How::use);
      timeline.keep();
      timeline.release();
      queue.add(thing);
      require(timeline.closed(), "nobody uses it");
      timeline.finish_all();
      timeline.unkeep();
    });
    scene.finally([&thing] { require(thing.runs == 1, "it is done"); });
  }));
}

// ---- forks ----------------------------------------------------------------------------------------------------------

// One thread hands over, the library's thread takes over, and the process forks anywhere in between.

/// A release that is ready at once, in the parent before the fork, and in the child after it.
TEST(ForkedReleases, TheChildGoesOnWithItsOwn) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    begin_world();
    auto& queue = scene.make<detail::ReleaseQueue>(device());
    auto& things = scene.make<std::array<Thing, 2>>();
    auto& child = scene.make<sync::Atomic<bool>>(false);
    scene.thread([&] { queue.add(things[0]); });
    scene.thread([&] {
      child = explore::fork();
      queue.add(things[1]);
    });
    scene.finally([&] {
      require(things[1].runs == 1, "what is added after the fork is done");
      require(child || things[0].runs == 1, "in the parent all is done");
    });
  }));
}

/// What was ready when the process forked, and was in no hands, needs no further release of its queue in the child.
TEST(ForkedReleases, TheChildFinishesWhatWasReady) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    begin_world();
    auto& queue = scene.make<detail::ReleaseQueue>(device());
    auto& thing = scene.make<Thing>();
    auto& job = scene.make<Counted>();
    scene.thread([&] { queue.add(thing); });
    scene.thread([&] {
      (void)explore::fork();
      detail::Watcher::get().post(job);
    });
    scene.finally([&] {
      require(job.runs == 1, "what is posted after the fork is done");
      require(!queue.settle(), "nothing is left to do");
    });
  }));
}

/// The same for a release that waits for a point, which is watched from a moment on that the fork may be before.
TEST(ForkedReleases, TheChildWatchesWhatWasWaitedFor) {
  EXPECT_TRUE(explore::holds(
      [](Scene& scene) {
        auto& timeline = marked(scene, 1);
        auto& queue = scene.make<detail::ReleaseQueue>(device());
        auto& thing = scene.make<Thing>();
        auto& job = scene.make<Counted>();
        thing.wait_for(timeline, 1);
        timeline.retain();
        scene.thread([&] {
          queue.add(thing);
          timeline.finish(1);
          timeline.release();
        });
        scene.thread([&] {
          if (explore::fork()) timeline.finish(1);
          detail::Watcher::get().post(job);
          timeline.release();
        });
        scene.finally([&] { require(!queue.settle(), "nothing is left to do"); });
      },
      {.preemptions = 2}));
}

/// A waiter that is told comes to fork: a failure is reported, and the sink forks. In the child the timeline can be
/// asked again.
TEST(ForkedWaiters, AWaiterForks) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& timeline = marked(scene, 2);
    auto& forking = scene.make<Waiting>(timeline);
    auto& other = scene.make<Waiting>(timeline);
    forking.value = 1;
    const auto forks = [](spi::Waiter& waiter, spi::InHand& others) noexcept {
      (void)explore::fork();
      Waiting::passed(waiter, others);
    };
    (void)timeline.after(1, forking, forks, false);
    wait_for(timeline, other, 2, false);
    timeline.finish_all();
    timeline.retain();
    for (int i = 0; i < 2; ++i) {
      scene.thread([&] {
        (void)timeline.settle();
        (void)timeline.settle();
        timeline.release();
      });
    }
    scene.finally([&] { require(forking.calls == 1, "it was told"); });
  }));
}

/// Whoever drains in the child does not wait for what a thread of the parent does.
TEST(ForkedReleases, TheChildDrains) {
  EXPECT_TRUE(explore::holds(
      [](Scene& scene) {
        begin_world();
        auto& queue = scene.make<detail::ReleaseQueue>(device());
        auto& things = scene.make<std::array<Thing, 2>>();
        scene.thread([&] { queue.add(things[0]); });
        scene.thread([&] {
          (void)explore::fork();
          queue.add(things[1]);
          queue.drain();
          require(things[1].runs == 1, "it is done");
        });
      },
      {.preemptions = 2}));
}

struct Forking final : detail::Release {
  void run() noexcept override {
    (void)explore::fork();
    runs.fetch_add(1);
  }
  sync::Atomic<int> runs{0};
};

/// A release of one queue forks, while another thread does one of another queue.
TEST(ForkedReleases, AReleaseForks) {
  EXPECT_TRUE(explore::holds(
      [](Scene& scene) {
        begin_world();
        auto& forked_in = scene.make<detail::ReleaseQueue>(device());
        auto& other = scene.make<detail::ReleaseQueue>(device());
        auto& forking = scene.make<Forking>();
        auto& things = scene.make<std::array<Thing, 2>>();
        scene.thread([&] { other.add(things[0]); });
        scene.thread([&] {
          forked_in.add(forking);
          forked_in.drain();
          other.add(things[1]);
          other.drain();
          require(forking.runs == 1 && things[1].runs == 1, "both are done");
        });
      },
      {.preemptions = 2}));
}

}  // namespace
}  // namespace weir::test
