// SPDX-License-Identifier: Apache-2.0
// Streams: turns at the driver, what is held back for a worker, and questions beside that.

#include <array>
#include <cstdint>

#include "explore.hpp"
#include "timeline.hpp"
#include "weir/error.hpp"

namespace weir::test {
namespace {

using explore::require;
using explore::Scene;
using spi::MarkOp;
using spi::WaitOp;

constexpr std::chrono::nanoseconds without_limit{-1};

/// One that device and scene look at; ends when the scene's threads have.
class Stage {
 public:
  explicit Stage(Timeline::Kind kind = Timeline::Kind::own) : stream(*new Timeline(kind)) {}
  ~Stage() { stream.release(); }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  Timeline& stream;
};

Timeline& stage(Scene& scene, Timeline::Kind kind = Timeline::Kind::own) {
  begin_world();
  return scene.make<Stage>(kind).stream;
}

// ---- turns ----------------------------------------------------------------------------------------------------------

/// The timeline itself demands that one thread is at the driver and that values rise.
explore::Story put(int threads, int times) {
  return [=](Scene& scene) {
    auto& stream = stage(scene);
    for (int i = 0; i < threads; ++i) {
      scene.thread([&stream, times] {
        std::uint64_t last = 0;
        for (int round = 0; round < times; ++round) {
          const auto value = stream.put(Timeline::copy(1));
          require(value > last, "values rise");
          require(stream.submitted(value), "the driver has it");
          last = value;
        }
      });
    }
    scene.finally([&stream, all = static_cast<std::uint64_t>(threads * times)] {
      require(stream.issued() == all && stream.last_taken() == all && stream.submitted(all), "all went to the driver");
    });
  };
}

TEST(Turns, TwoThreads) { EXPECT_TRUE(explore::holds(put(2, 2))); }
TEST(Turns, ThreeThreads) { EXPECT_TRUE(explore::holds(put(3, 1))); }

/// Who has asked before comes before, however fast others are when a turn ends.
TEST(Turns, AreInTheOrderInWhichThreadsAsk) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& stream = stage(scene);
    auto& values = scene.make<std::array<std::uint64_t, 3>>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      scene.thread([&stream, &values, i] {
        for (unsigned round = 0; spi::ForkLink::asked(stream) < i; ++round) sync::pause(round);
        values.at(i) = stream.put(Timeline::copy(1));
      });
    }
    scene.finally([&values] { require(values[0] < values[1] && values[1] < values[2], "first come, first served"); });
  }));
}

/// Put what the driver refuses, and be told.
void put_refused(Timeline& stream) {
  bool refused = false;
  try {
    stream.put(Timeline::copy(0));
  } catch (const Error& error) {
    refused = error.code() == Errc::out_of_memory;
  }
  require(refused, "it is told");
  require(!stream.lost(), "the stream goes on");
}

/// What the driver refuses is thrown to whoever put it, and is nobody else's business.
TEST(Turns, ARefusalIsItsCallers) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& stream = stage(scene);
    scene.thread([&stream] { put_refused(stream); });
    for (int i = 0; i < 2; ++i) {
      scene.thread([&stream] {
        const auto value = stream.put(Timeline::copy(1));
        require(stream.submitted(value) && !stream.lost(), "others are served");
      });
    }
  }));
}

// ---- questions ------------------------------------------------------------------------------------------------------

/// Asked while somebody else has the turn, who has to make a point of it then.
TEST(Questions, AnAnswerComesInTheEnd) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& stream = stage(scene);
    stream.finish_all();
    scene.thread([&stream] {
      const auto value = stream.put(Timeline::copy(1));
      for (unsigned i = 0; !stream.reached(value); ++i) sync::pause(i);
    });
    scene.thread([&stream] { stream.put(Timeline::copy(1)); });
  }));
}

/// And who asks once need not ask again for that.
TEST(Questions, AreNotForgotten) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& stream = stage(scene);
    stream.put(Timeline::copy(1));
    scene.thread([&stream] { stream.put(Timeline::copy(1)); });
    scene.thread([&stream] { (void)stream.reached(1); });
    scene.finally([&stream] { require(stream.marked() >= 1, "somebody has marked it"); });
  }));
}

/// A caller that cannot leave the mark to others waits for the turn, and makes it.
TEST(Questions, AreMarkedWhenTheCallReturns) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& stream = stage(scene);
    stream.put(Timeline::copy(1));
    scene.thread([&stream] { stream.put(Timeline::copy(1)); });
    scene.thread([&stream] {
      stream.mark_submitted();
      require(stream.marked() >= 1, "it is marked by now");
    });
  }));
}

TEST(Questions, WaitersAreWoken) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& stream = stage(scene);
    stream.finish_all();
    scene.thread([&stream] { stream.put(Timeline::copy(1)); });
    scene.thread([&stream] { require(stream.wait_for(1, without_limit) == WaitStatus::ready, "it comes"); });
    scene.thread([&stream] { require(stream.wait_submitted(1), "it is submitted"); });
  }));
}

/// Positions of a stream on which others put work are marked before anybody is told.
TEST(Questions, PositionsOfForeignStreams) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& stream = stage(scene, Timeline::Kind::foreign);
    stream.finish_all();
    for (int i = 0; i < 2; ++i) {
      scene.thread([&stream] {
        const auto at = stream.position();
        for (unsigned round = 0; !stream.reached(at); ++round) sync::pause(round);
      });
    }
  }));
}

// ---- the worker -----------------------------------------------------------------------------------------------------

/// A wait that the driver does not take is held back with all that follows; a thread of the stream waits for it.
TEST(HeldBack, WorkGoesOnWhenWhatItWaitsForIsThere) {
  EXPECT_TRUE(explore::holds(
      [](Scene& scene) {
        auto& other = stage(scene);
        auto& stream = scene.make<Stage>().stream;
        other.finish_all();
        stream.finish_all();
        scene.thread([&] {
          (void)stream.put(WaitOp{spi::Kept(other), 1});
          const auto value = stream.put(Timeline::copy(1));
          require(stream.wait_for(value, without_limit) == WaitStatus::ready, "it is done in the end");
          require(other.known_reached(1), "after what it waited for");
        });
        scene.thread([&] { other.put(Timeline::copy(1)); });
      },
      {.preemptions = 2}));
}

/// Nothing is held back any more once it is known to be over, so a refusal is the caller's again.
TEST(HeldBack, RefusalsAfterItAreTheirCallers) {
  EXPECT_TRUE(explore::holds(
      [](Scene& scene) {
        auto& stream = stage(scene);
        stream.finish_all();
        scene.thread([&stream] {
          const auto value = stream.put(spi::CallOp{[] {}});
          require(stream.wait_for(value, without_limit) == WaitStatus::ready, "it has run");
          put_refused(stream);
        });
      },
      {.preemptions = 2}));
  EXPECT_TRUE(explore::holds(
      [](Scene& scene) {
        auto& other = stage(scene);
        auto& stream = scene.make<Stage>().stream;
        other.finish_all();
        stream.finish_all();
        scene.thread([&] {
          (void)stream.put(WaitOp{spi::Kept(other), 1});
          const auto value = stream.put(Timeline::copy(1));
          require(stream.wait_submitted(value), "the driver has it");
          put_refused(stream);
        });
        scene.thread([&] { other.put(Timeline::copy(1)); });
      },
      {.preemptions = 2}));
  EXPECT_TRUE(explore::holds(
      [](Scene& scene) {
        auto& other = stage(scene);
        auto& stream = scene.make<Stage>().stream;
        other.finish_all();
        scene.thread([&] {
          const auto value = stream.put(WaitOp{spi::Kept(other), 1});
          require(stream.wait_submitted(value), "it has waited");
          put_refused(stream);
        });
        scene.thread([&] { other.put(Timeline::copy(1)); });
      },
      {.preemptions = 2}));
}

/// The worker leaves after a while; what comes at that moment is not forgotten.
TEST(HeldBack, TheWorkerThatLeavesAndTheNextOne) {
  EXPECT_TRUE(explore::holds(
      [](Scene& scene) {
        auto& stream = stage(scene);
        stream.finish_all();
        auto& calls = scene.make<sync::Atomic<int>>(0);
        for (int i = 0; i < 2; ++i) {
          scene.thread([&] {
            const auto value = stream.put(spi::CallOp{[&calls] { calls.fetch_add(1); }});
            require(stream.wait_for(value, without_limit) == WaitStatus::ready, "it has run");
          });
        }
        scene.finally([&calls] { require(calls == 2, "each runs once"); });
      },
      {.preemptions = 2}));
}

}  // namespace
}  // namespace weir::test
