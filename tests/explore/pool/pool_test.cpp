// SPDX-License-Identifier: Apache-2.0
// The pool as it is: closes by other threads against the owner of a cache, against who looks for memory, and against
// the ends of the stream and of the pool. What a run leaves is a leak, so each of these must end.

#include <utility>
#include <vector>

#include "memory.hpp"

namespace weir::test {
namespace {

using explore::require;
using explore::Scene;

/// A pool of a few small buffers, and a stream that has all it needs already. Threads take their parts out.
struct World {
  explicit World(PoolOptions options = {}) {
    begin_world_of_pools();
    options.segment_bytes = options.limit = Bytes::units * Bytes::unit;
    options.growth = 0;
    options.patience = {};
    options.paged = false;
    pool = make_pool(upstream(), options);
    add_stream();
  }

  Timeline& add_stream() {
    auto* const made = new Timeline;
    made->finish_all();
    handles.push_back(handle(made));
    return *made;
  }
  /// Live from the beginning, made by the first thread.
  Buffer& add_buffer(std::size_t of_stream = 0) {
    buffers.reserve(Bytes::units);
    buffers.push_back(pool->allocate(Bytes::unit, handles.at(of_stream)));
    bytes.begin(buffers.back());
    return buffers.back();
  }
  /// A live buffer, and a stream that uses it up to point 1, which the stream has not reached.
  Timeline& add_buffer_in_use() {
    auto& user = add_stream();
    user.finish(0);
    const Buffer& buffer = add_buffer();
    (void)user.put(spi::MarkOp{});
    buffer.use_on(handles.back());
    return user;
  }
  void allocate_and_close(const Stream& on) {
    if (auto buffer = pool->try_allocate(Bytes::unit, on)) {
      bytes.begin(*buffer);
      bytes.end(*buffer);
    }
  }
  static void drop(Stream& stream) { (void)Stream(std::move(stream)); }
  static void drop(PoolPtr& pool) { pool = nullptr; }

  Bytes bytes;
  PoolPtr pool;
  std::vector<Stream> handles;
  std::vector<Buffer> buffers;
};

/// All of the scene's; what is left ends with it.
World& world(Scene& scene, PoolOptions options = {}) { return scene.make<World>(options); }

// ---- closes ---------------------------------------------------------------------------------------------------------

TEST(Pools, TheOwnerAgainstAClose) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& all = world(scene);
    for (int i = 0; i < 2; ++i) all.add_buffer();
    scene.thread([&all] {
      be_the_first_thread();
      all.bytes.end(all.buffers[1]);
      all.allocate_and_close(all.handles[0]);
      all.allocate_and_close(all.handles[0]);
    });
    scene.thread([&all] { all.bytes.end(all.buffers[0]); });
    scene.finally([&all] { require(all.pool->stats().live_buffers == 0, "all are closed"); });
  }));
}

/// Memory that one stream has closed goes to another, while its owner and others go on.
TEST(Pools, TheOwnerAgainstWhoLooksForMemory) {
  EXPECT_TRUE(explore::holds(
      [](Scene& scene) {
        auto& all = world(scene);
        all.add_stream();
        for (std::size_t i = 0; i < Bytes::units; ++i) all.add_buffer();
        all.bytes.end(all.buffers[1]);
        scene.thread([&all] {
          be_the_first_thread();
          all.allocate_and_close(all.handles[0]);
        });
        scene.thread([&all] { all.bytes.end(all.buffers[0]); });
        scene.thread([&all] { all.allocate_and_close(all.handles[1]); });
        scene.finally([&all] {
          require(all.pool->stats().live_buffers == Bytes::units - 2, "the others are live");
          for (int i = 0; i < 2; ++i) all.add_buffer(1);  // both are there for everybody
        });
      },
      {.preemptions = 2}));
}

TEST(Pools, TwoThreadsOnOneStream) {
  EXPECT_TRUE(explore::holds(
      [](Scene& scene) {
        auto& all = world(scene);
        all.add_buffer();
        for (int i = 0; i < 2; ++i) scene.thread([&all] { all.allocate_and_close(all.handles[0]); });
        scene.thread([&all] { all.bytes.end(all.buffers[0]); });
      },
      {.preemptions = 2}));
}

// ---- forks ----------------------------------------------------------------------------------------------------------

/// The owner of a cache is anywhere in its calls while another thread forks. In the child the pool goes on, and ends.
TEST(PoolForks, TheOwnerIsAnywhere) {
  EXPECT_TRUE(explore::holds(
      [](Scene& scene) {
        auto& all = world(scene);
        for (int i = 0; i < 2; ++i) all.add_buffer();
        scene.thread([&all] {
          be_the_first_thread();
          all.bytes.end(all.buffers[1]);
          all.allocate_and_close(all.handles[0]);
        });
        scene.thread([&all] {
          if (!explore::fork()) return;
          all.bytes.end(all.buffers[0]);
          all.allocate_and_close(all.handles[0]);
          World::drop(all.pool);
        });
        scene.finally([&all, pool = all.pool.get()] {
          all.buffers.clear();
          if (!all.pool && segments_out() != 0)
            delete pool;  // a thread had memory in hand, which keeps the pool of a child for ever
        });
      },
      {.preemptions = 2}));
}

// ---- ends -----------------------------------------------------------------------------------------------------------

/// The stream's last handle goes while its last buffers are closed: it ends with the last of these.
TEST(PoolEnds, AStreamWithItsLastBuffer) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& all = world(scene);
    for (int i = 0; i < 2; ++i) all.add_buffer();
    scene.thread([&all] { World::drop(all.handles[0]); });
    scene.thread([&all] { all.bytes.end(all.buffers[0]); });
    scene.thread([&all] {
      be_the_first_thread();
      all.bytes.end(all.buffers[1]);
    });
    scene.finally([&all] { require(all.pool->pool_stats().streams == 0, "the pool has forgotten it"); });
  }));
}

/// Somebody finds it by its native handle meanwhile, and allocates on it.
TEST(PoolEnds, AStreamThatIsBorrowed) {
  EXPECT_TRUE(explore::holds(
      [](Scene& scene) {
        auto& all = world(scene);
        all.add_buffer();
        auto* const stream = &static_cast<Timeline&>(all.handles[0].state());
        stream->keep();
        scene.thread([&all] { World::drop(all.handles[0]); });
        scene.thread([&all] { all.bytes.end(all.buffers[0]); });
        scene.thread([&all, stream] {
          if (stream->try_retain()) {
            const Stream borrowed = handle(stream);
            all.allocate_and_close(borrowed);
          }
          stream->unkeep();
        });
        scene.finally([&all] { require(all.pool->pool_stats().streams == 0, "the pool has forgotten it"); });
      },
      {.preemptions = 2}));
}

/// The pool's last handle goes while its last buffers are closed: it ends with the last of these.
TEST(PoolEnds, APoolWithItsLastBuffer) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& all = world(scene);
    for (int i = 0; i < 2; ++i) all.add_buffer();
    scene.thread([&all] { World::drop(all.pool); });
    scene.thread([&all] { all.bytes.end(all.buffers[0]); });
    scene.thread([&all] {
      be_the_first_thread();
      all.bytes.end(all.buffers[1]);
    });
    scene.finally([] { require(segments_out() == 0, "upstream has everything back"); });
  }));
}

/// Three at once: the stream, the pool, the last buffer.
TEST(PoolEnds, AllAtOnce) {
  EXPECT_TRUE(explore::holds(
      [](Scene& scene) {
        auto& all = world(scene);
        all.add_buffer();
        scene.thread([&all] { World::drop(all.handles[0]); });
        scene.thread([&all] { World::drop(all.pool); });
        scene.thread([&all] { all.bytes.end(all.buffers[0]); });
        scene.finally([] { require(segments_out() == 0, "upstream has everything back"); });
      },
      {.preemptions = 2}));
}

/// A handle comes back from a buffer while the last one goes.
TEST(PoolEnds, AHandleOfABuffer) {
  EXPECT_TRUE(explore::holds(
      [](Scene& scene) {
        auto& all = world(scene);
        all.add_buffer();
        scene.thread([&all] { World::drop(all.pool); });
        scene.thread([&all] {
          const ResourcePtr handle = all.buffers[0].memory_resource();
          all.bytes.end(all.buffers[0]);
          if (auto buffer = handle->try_allocate(Bytes::unit, all.handles[0])) all.bytes.begin(*buffer);
        });
        scene.finally([] { require(segments_out() == 0, "upstream has everything back"); });
      },
      {.preemptions = 2}));
}

// ---- memory that other streams still use ----------------------------------------------------------------------------

/// A closed buffer waits for another stream, which gets there and ends while the pool ends.
TEST(PoolAway, WhatWaitsForAnotherStream) {
  EXPECT_TRUE(explore::holds(
      [](Scene& scene) {
        auto& all = world(scene);
        auto& other = all.add_buffer_in_use();
        scene.thread([&all] {
          all.bytes.touch(all.buffers[0]);
          all.buffers[0].close();
        });
        scene.thread([&all, &other] {
          other.finish(1);
          World::drop(all.handles[1]);
        });
        scene.thread([&all] { World::drop(all.pool); });
        scene.finally([] { require(segments_out() == 0, "upstream has everything back"); });
      },
      {.preemptions = 2}));
}

/// The stream that the memory came from ends while the memory waits for another one.
TEST(PoolAway, WhatHasNoStreamToComeBackTo) {
  EXPECT_TRUE(explore::holds(
      [](Scene& scene) {
        auto& all = world(scene);
        auto& other = all.add_buffer_in_use();
        scene.thread([&all] { all.bytes.end(all.buffers[0]); });
        scene.thread([&other] {
          other.finish(1);
          other.settle();
        });
        scene.thread([&all] { World::drop(all.handles[0]); });
        scene.finally([&all] {
          (void)all.pool->trim(0);
          require(segments_out() == 0, "nothing waits any more");
          require(all.pool->pool_stats().streams <= 1, "the pool has forgotten the stream that ended");
        });
      },
      {.preemptions = 2}));
}

/// Beside a pool on a stream: says at first that it has more to do, so that all are told once more that it is over.
struct ToldTwice {
  explicit ToldTwice(spi::StreamState& stream) { (void)stream.attach(this, 0, this, &events); }

  sync::Plain<int> calls = 0;  // under the lock of all attachments
  static const spi::AttachmentEvents events;
};

const spi::AttachmentEvents ToldTwice::events{
    [](void*) noexcept {}, [](void*, std::uint64_t) noexcept {},
    [](void* object) noexcept {
      using Answer = spi::AttachmentEvents::Answer;
      return static_cast<ToldTwice*>(object)->calls++ == 0 ? Answer::more : Answer::gone;
    }};

/// The same when the pool is told more than once that the stream is over.
TEST(PoolAway, WhatHasNoStreamToComeBackToWhoseEndIsToldTwice) {
  EXPECT_TRUE(explore::holds(
      [](Scene& scene) {
        auto& all = world(scene);
        auto& other = all.add_buffer_in_use();
        auto& beside = scene.make<ToldTwice>(all.handles[0].state());
        all.bytes.end(all.buffers[0]);
        scene.thread([&other] {
          other.finish(1);
          other.settle();
        });
        scene.thread([&all] { World::drop(all.handles[0]); });
        scene.finally([&all, &beside] {
          require(beside.calls == 2, "all were told twice");
          (void)all.pool->trim(0);
          require(segments_out() == 0, "nothing waits any more");
          require(all.pool->pool_stats().streams <= 1, "the pool has forgotten the stream that ended");
        });
      },
      {.preemptions = 2}));
}

/// Once nothing is live, a single trim gives everything back, even if the thread that closed the last buffer is still at
/// it.
TEST(PoolAway, WhatIsNotLiveIsTrimmed) {
  for (const bool from_home : {false, true}) {
    EXPECT_TRUE(explore::holds(
        [from_home](Scene& scene) {
          auto& all = world(scene);
          auto& other = all.add_buffer_in_use();
          scene.thread([&all, from_home] {
            if (from_home) be_the_first_thread();
            all.bytes.end(all.buffers[0]);
          });
          scene.thread([&all, &other] {
            other.finish(1);
            if (all.pool->stats().live_buffers != 0) return;
            (void)all.pool->trim(0);
            require(segments_out() == 0, "nothing is left");
          });
          scene.finally([&all] { (void)all.pool->trim(0); });
        },
        {.preemptions = 2}));
  }
}

/// The same while another thread has the memory in hand: one of two streams that it waited for has passed.
TEST(PoolAway, WhatGoesOnToAnotherStreamIsTrimmed) {
  EXPECT_TRUE(explore::holds(
      [](Scene& scene) {
        auto& all = world(scene);
        Timeline* const others[] = {&all.add_stream(), &all.add_stream()};
        all.add_buffer();
        for (std::size_t i = 0; i < 2; ++i) {
          (void)others[i]->put(spi::MarkOp{});
          all.buffers[0].use_on(all.handles[1 + i]);
        }
        all.bytes.end(all.buffers[0]);
        for (Timeline* const other : others) {
          scene.thread([other] {
            other->finish(1);
            other->settle();
          });
        }
        scene.thread([&all, others] {
          for (Timeline* const other : others) other->finish(1);
          (void)all.pool->trim(0);
          require(segments_out() == 0, "nothing is left");
        });
      },
      {.preemptions = 2}));
}

/// One waits and another one joins it, on a stream that gets there meanwhile.
TEST(PoolAway, WhatJoinsWhatWaits) {
  for (const bool pool_ends : {false, true}) {
    EXPECT_TRUE(explore::holds(
        [pool_ends](Scene& scene) {
          auto& all = world(scene);
          auto& other = all.add_stream();
          other.finish(0);
          for (int i = 0; i < 3; ++i) all.add_buffer();
          all.bytes.end(all.buffers[0]);  // from now on the pool knows the cache
          (void)other.put(spi::MarkOp{});
          all.buffers[1].use_on(all.handles[1]);
          all.buffers[2].use_on(all.handles[1]);
          all.bytes.end(all.buffers[1]);
          scene.thread([&all] {
            be_the_first_thread();
            all.bytes.end(all.buffers[2]);
          });
          scene.thread([&other] {
            other.finish(1);
            other.settle();
          });
          if (pool_ends) {
            scene.thread([&all] { World::drop(all.pool); });
          } else {
            scene.thread([&all] { all.allocate_and_close(all.handles[1]); });
          }
          scene.finally([&all, pool_ends] {
            if (pool_ends) return require(segments_out() == 0, "upstream has everything back");
            (void)all.pool->trim(0);
            require(segments_out() == 0, "nothing waits any more");
          });
        },
        {.preemptions = 2}));
  }
}

/// Two wait for one stream and come back together; one of them waits for a second stream first, which ends with the
/// pool.
TEST(PoolAway, WhatPassesTogetherGoesOnByItself) {
  EXPECT_TRUE(explore::holds(
      [](Scene& scene) {
        auto& all = world(scene);
        auto& other = all.add_stream();
        auto& second = all.add_stream();
        all.add_buffer();
        all.add_buffer();
        (void)other.put(spi::MarkOp{});
        (void)second.put(spi::MarkOp{});
        all.buffers[0].use_on(all.handles[2]);
        all.buffers[0].use_on(all.handles[1]);
        all.buffers[1].use_on(all.handles[1]);
        all.bytes.end(all.buffers[0]);
        all.bytes.end(all.buffers[1]);
        scene.thread([&all, &other] {
          other.finish(1);
          other.settle();
          World::drop(all.handles[1]);
        });
        scene.thread([&all, &second] {
          second.finish(1);
          World::drop(all.handles[2]);
        });
        scene.thread([&all] { World::drop(all.pool); });
        scene.finally([] { require(segments_out() == 0, "upstream has everything back"); });
      },
      {.preemptions = 1}));
}

/// The same while somebody looks for memory, who then gets it.
TEST(PoolAway, WhoLooksFindsIt) {
  EXPECT_TRUE(explore::holds(
      [](Scene& scene) {
        auto& all = world(scene);
        auto& other = all.add_stream();
        other.finish(0);
        for (std::size_t i = 0; i < Bytes::units; ++i) all.add_buffer();
        (void)other.put(spi::MarkOp{});
        all.buffers[0].use_on(all.handles[1]);
        scene.thread([&all] { all.bytes.end(all.buffers[0]); });
        scene.thread([&other] { other.finish(1); });
        scene.thread([&all] { all.allocate_and_close(all.handles[1]); });
        scene.finally([&all] { all.add_buffer(1); });
      },
      {.preemptions = 2}));
}

}  // namespace
}  // namespace weir::test
