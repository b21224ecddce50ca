// SPDX-License-Identifier: Apache-2.0
// The end of a stream against those who find it by its native handle, and what resources keep beside it.

#include <array>
#include <cstdint>

#include "explore.hpp"
#include "timeline.hpp"
#include "weir/spi/attachment.hpp"
#include "weir/spi/block.hpp"

namespace weir::test {
namespace {

using explore::require;
using explore::Scene;

/// What a resource keeps beside a stream. Ends with it.
struct Beside {
  sync::Plain<int> uses{0};
  sync::Atomic<int> closed{0};
  sync::Atomic<int>* ended = nullptr;
};

constexpr spi::AttachmentEvents events{[](void*) noexcept {},
                                       [](void* object, std::uint64_t) noexcept {
                                         require(static_cast<Beside*>(object)->closed.fetch_add(1) == 0,
                                                 "it is closed once");
                                       },
                                       [](void* object) noexcept {
                                         auto* const beside = static_cast<Beside*>(object);
                                         require(beside->closed == 1, "it was closed before");
                                         (void)beside->uses.get();
                                         if (beside->ended) beside->ended->fetch_add(1);
                                         delete beside;
                                         return spi::AttachmentEvents::Answer::gone;
                                       }};

const int some_owner = 0, other_owner = 0;

/// Use the stream, as a pool does. The caller holds a use.
void use(Timeline& stream, const void* owner, sync::Atomic<int>* ended = nullptr) {
  void* found = stream.attached(owner);
  if (!found) {
    auto made = std::make_unique<Beside>();
    made->ended = ended;
    found = stream.attach(owner, 0, made.get(), &events);
    if (found == made.get()) (void)made.release();
  }
  require(!stream.closed(), "a stream in use is not closed");
  require(static_cast<Beside*>(found)->closed == 0, "nor is what is beside it");
}

/// A borrower keeps it alive as a registry of native handles does.
explore::Story borrowed(Timeline::Kind kind, bool used_before) {
  return [=](Scene& scene) {
    begin_world();
    auto* const stream = new Timeline(kind);
    stream->finish_all();
    auto& ended = scene.make<sync::Atomic<int>>(0);
    if (used_before) use(*stream, &some_owner, &ended);
    stream->keep();
    scene.thread([stream] { stream->release(); });
    scene.thread([&, stream] {
      if (stream->try_retain()) {
        use(*stream, &some_owner, &ended);
        (void)stream->put(Timeline::copy(1));
        stream->release();
      } else {
        require(stream->closed(), "only an end keeps it from being borrowed");
      }
      stream->unkeep();
    });
    scene.finally([&ended, used_before] {
      require(used_before ? ended == 1 : ended <= 1, "what was beside the stream ended with it");
    });
  };
}

TEST(Ends, TheLastUseAgainstABorrower) {
  EXPECT_TRUE(explore::holds(borrowed(Timeline::Kind::own, false)));
  EXPECT_TRUE(explore::holds(borrowed(Timeline::Kind::own, true)));
}

TEST(Ends, TheSameOfAnApplicationsStream) { EXPECT_TRUE(explore::holds(borrowed(Timeline::Kind::foreign, true))); }

/// Work is left on it when the last use goes: those beside it are told when that is over, by the library's thread.
TEST(Ends, WorkGoesOnAfterTheLastUse) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    begin_world();
    auto* const stream = new Timeline;
    stream->put(spi::MarkOp{});
    auto& ended = scene.make<sync::Atomic<int>>(0);
    use(*stream, &some_owner, &ended);
    stream->keep();
    scene.thread([stream] { stream->release(); });
    scene.thread([stream] {
      stream->finish(1);
      stream->unkeep();
    });
    scene.finally([&ended] { require(ended == 1, "it has ended"); });
  }));
}

/// Two threads find a stream on which an owner has nothing yet, and a third looks for another owner's.
TEST(Attachments, OneOfTwoThreadsAttaches) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    begin_world();
    auto* const stream = new Timeline;
    stream->finish_all();
    auto& seen = scene.make<std::array<void*, 2>>();
    for (int i = 0; i < 2; ++i) stream->retain();
    for (std::size_t i = 0; i < seen.size(); ++i) {
      scene.thread([&, i, stream] {
        use(*stream, &some_owner);
        seen.at(i) = stream->attached(&some_owner);
        stream->release();
      });
    }
    scene.thread([stream] {
      use(*stream, &other_owner);
      stream->release();
    });
    scene.finally([&seen] { require(seen[0] && seen[0] == seen[1], "both have found the same"); });
  }));
}

/// A record is used again as soon as an owner has detached, while others look for theirs.
TEST(Attachments, ARecordGoesFromOneOwnerToAnother) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    begin_world();
    auto* const stream = new Timeline;
    stream->finish_all();
    auto& first = scene.make<Beside>();
    auto& second = scene.make<Beside>();
    auto& third = scene.make<Beside>();
    const auto* const nobody = &device();  // owner of what is never attached
    (void)stream->attach(&some_owner, 0, &first, nullptr);
    (void)stream->attach(&other_owner, 0, &second, nullptr);
    stream->retain();
    stream->retain();
    scene.thread([&, stream] {
      {
        spi::AttachmentLock lock;
        lock.detach(*stream, &some_owner);
      }
      stream->release();
    });
    scene.thread([&, stream] {
      (void)stream->attach(&third, 0, &third, nullptr);
      require(stream->attached(&third) == &third, "it is attached");
      stream->release();
    });
    scene.thread([&second, nobody, stream] {
      require(stream->attached(&other_owner) == &second, "another one's is found meanwhile");
      require(!stream->attached(nobody), "and nothing of somebody who has none");
      stream->release();
    });
  }));
}

// ---- blocks ---------------------------------------------------------------------------------------------------------

/// The streams that used a buffer are recorded by whatever thread.
TEST(Blocks, UsesOfTwoThreadsAreBothRecorded) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    begin_world();
    auto* const home = new Timeline;
    auto* const first = new Timeline;
    auto* const second = new Timeline;
    for (auto* const stream : {home, first, second}) stream->finish_all();
    auto& block = scene.make<spi::Block>();
    block.stream = home;
    auto& both = scene.make<sync::Atomic<int>>(0);
    for (auto* const stream : {first, second}) {
      scene.thread([&block, &both, home, stream] {
        block.used(*stream, 1);
        stream->release();
        require(!block.only_at_home(), "what was just recorded is seen");
        if (both.fetch_add(1) == 0) return;
        const auto* const uses = block.take_uses();
        require(uses != nullptr, "there is a record");
        require(block.uses().size() == 3, "both and the home are in it");
        block.forget_uses();
        home->release();
      });
    }
  }));
}

}  // namespace
}  // namespace weir::test
