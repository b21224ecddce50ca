// SPDX-License-Identifier: Apache-2.0
// When memory goes back: after every point, also on lost timelines; never early; by whoever waits for it, and without
// waiting for anybody else's. Without memory: failures/releases_test.cpp.
#include "stream/releases.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "sink.hpp"
#include "stream/fake_stream.hpp"
#include "stream/watched_memory.hpp"
#include "threads.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;

class Releases : public testing::Test {
 protected:
  /// Close a buffer that was used on `fake` up to now.
  void release() { buffer.close(stream); }
  std::vector<spi::Point> point(std::uint64_t value) { return {{spi::Kept(*fake), value}}; }
  void capture() {
    captured = true;
    fake->behaviour.on_mark = [this] {
      if (captured) throw Error(Errc::unsupported, "captured");
    };
  }

  std::atomic<bool> captured{false};
  FakeStream* fake = new FakeStream;
  const Stream stream{spi::Ref<spi::StreamState>::adopt(fake)};
  const Stream home{host_device()};
  std::atomic<bool> freed{false};
  std::shared_ptr<WatchedResource> resource = std::make_shared<WatchedResource>(freed, false);
  Buffer buffer = resource->allocate(4096, home);
  spi::Ref<spi::Segment> segment = spi::Ref<spi::Segment>::adopt(new WatchedSegment(freed));
  detail::ReleaseQueue queue{host_device().state()};
};

/// Keeps the library's thread busy, so that nobody else looks.
class Occupied {
 public:
  Occupied() {
    fake_->put(FakeStream::fill());
    detail::run_after(queue_, {{spi::Kept(*fake_), 1}}, [this] {
      begun_.set_value();
      go_.get_future().wait();
    });
    fake_->finish(1);
    begun_.get_future().wait();
  }
  Occupied(const Occupied&) = delete;
  Occupied& operator=(const Occupied&) = delete;
  ~Occupied() {
    go_.set_value();
    (void)queue_.settle();
  }

 private:
  FakeStream* const fake_ = new FakeStream;
  const Stream owner_{spi::Ref<spi::StreamState>::adopt(fake_)};
  std::promise<void> begun_, go_;
  detail::ReleaseQueue queue_{host_device().state()};
};

TEST_F(Releases, AreDoneAtOnceWhenEverythingHasPassed) {
  fake->put(FakeStream::fill());
  fake->finish(1);
  release();
  EXPECT_TRUE(freed);
  EXPECT_EQ(resource->released, 4096U);
}

TEST_F(Releases, AreDoneAfterTheLastUse) {
  fake->put(FakeStream::fill());
  release();
  EXPECT_FALSE(resource->settle());
  EXPECT_FALSE(freed);
  fake->finish(1);
  resource->trim(0);
  EXPECT_TRUE(freed);
}

// Such as one that was captured after it was lost. Whoever captures may be the one who waits.
TEST_F(Releases, OnALostStreamThatNobodyCanAskAreNotWaitedFor) {
  fake->put(FakeStream::fill());
  capture();
  fake->become_unready();
  EXPECT_EQ(take_reports().size(), 1U);
  release();
  resource->trim(0);
  EXPECT_FALSE(freed);
  captured = false;
  fake->finish(1);
  resource->trim(0);
  EXPECT_TRUE(freed);
}

TEST_F(Releases, OnALostStreamThatNobodyCanAskHoldUpNoOthers) {
  auto* const fine = new FakeStream;
  const Stream owner{spi::Ref<spi::StreamState>::adopt(fine)};
  std::atomic<int> done{0};
  fake->put(FakeStream::fill());
  fine->put(FakeStream::fill());
  capture();
  fine->behaviour.on_wait = [&] { fine->finish(1); };
  fake->become_unready();
  EXPECT_EQ(take_reports().size(), 1U);
  for (const auto& each : {point(1), point(1), {{spi::Kept(*fine), 1}}})
    detail::run_after(queue, each, [&] { ++done; });
  queue.drain();
  EXPECT_EQ(done, 1);
  captured = false;
  fake->finish(1);
  queue.drain();
  EXPECT_EQ(done, 3);
}

// The other one was captured, too.
TEST_F(Releases, OnALostStreamBehindOneThatNobodyCanAskAreNotWaitedFor) {
  auto* const behind = new FakeStream;
  const Stream owner{spi::Ref<spi::StreamState>::adopt(behind)};
  std::atomic<bool> done{false};
  capture();
  fake->put(FakeStream::fill());
  behind->put(FakeStream::fill());
  behind->put(fake->space_op(1));  // held back
  behind->finish(2);
  for (FakeStream* const each : {fake, behind}) each->become_unready();
  EXPECT_EQ(take_reports().size(), 2U);
  detail::run_after(queue, {{spi::Kept(*behind), 2}}, [&] { done = true; });
  queue.drain();
  EXPECT_FALSE(done);
  captured = false;
  fake->finish(1);
  queue.drain();
  EXPECT_TRUE(done);
}

TEST_F(Releases, OnALostStreamBehindAnotherAreWaitedFor) {
  auto* const other = new FakeStream;
  const Stream owner{spi::Ref<spi::StreamState>::adopt(other)};
  std::atomic<bool> done{false};
  other->put(FakeStream::fill());
  fake->put(FakeStream::fill());
  fake->put(other->space_op(1));  // held back
  fake->finish(2);
  fake->become_unready();
  EXPECT_EQ(take_reports().size(), 1U);
  detail::run_after(queue, point(2), [&] { done = true; });
  auto draining = std::async(std::launch::async, [&] { queue.drain(); });
  EXPECT_EQ(draining.wait_for(100ms), std::future_status::timeout);
  other->finish(1);
  draining.get();
  EXPECT_TRUE(done);
}

TEST_F(Releases, AreDoneByTheLibraryWhenNobodyAsks) {
  fake->put(FakeStream::fill());
  release();
  fake->finish(1);
  while (!freed) std::this_thread::yield();
}

TEST_F(Releases, ThatMayBlockAreNotDoneByWhoeverCloses) {
  std::atomic<bool> gone{false};
  const auto blocking = std::make_shared<WatchedResource>(gone, true);
  std::promise<void> occupied, go;
  detail::ReleaseQueue other{host_device().state()};
  fake->put(FakeStream::fill());
  detail::run_after(other, point(1), [&] {  // on the library's thread
    occupied.set_value();
    go.get_future().wait();
  });
  fake->finish(1);
  occupied.get_future().wait();
  blocking->allocate(4096, home).close();
  EXPECT_FALSE(gone);
  blocking->trim(0);
  EXPECT_TRUE(gone) << "whoever waits for it does it, and waits for nobody else's";
  go.set_value();
  other.drain();
}

TEST_F(Releases, OfOthersAreNotWaitedFor) {
  detail::ReleaseQueue other{host_device().state()};
  fake->put(FakeStream::fill());
  bool theirs = false, mine = false;
  detail::run_after(other, point(1), [&] { theirs = true; });
  auto* const done = new FakeStream;
  const auto owner = spi::Ref<spi::StreamState>::adopt(done);
  done->put(FakeStream::fill());
  detail::run_after(queue, {{spi::Kept(*done), 1}}, [&] { mine = true; });
  done->finish(1);
  queue.drain();
  EXPECT_TRUE(mine);
  EXPECT_FALSE(theirs);
  fake->finish(1);
  other.drain();
  EXPECT_TRUE(theirs);
}

TEST_F(Releases, AreWaitedForNoLongerThanTheCallerSays) {
  EXPECT_FALSE(queue.settle_within(1h)) << "there are none";
  fake->put(FakeStream::fill());
  std::atomic<bool> done{false};
  detail::run_after(queue, point(1), [&] { done = true; });
  EXPECT_FALSE(queue.settle_within(1ms));
  EXPECT_FALSE(done);
  const auto finishing = std::async(std::launch::async, [&] { fake->finish(1); });
  (void)queue.settle_within(1h);  // false if the library's thread was faster
  EXPECT_TRUE(done);
}

TEST_F(Releases, AreFoundBehindManyThatWaitForTwoStreamsInTurn) {
  constexpr int many = 64;
  auto* const other = new FakeStream;
  auto* const over = new FakeStream;
  const Stream others{spi::Ref<spi::StreamState>::adopt(other)}, its{spi::Ref<spi::StreamState>::adopt(over)};
  for (FakeStream* const each : {fake, other, over}) each->put(FakeStream::fill());
  const Occupied nobody_else_looks;
  for (int i = 0; i < many; ++i) detail::run_after(queue, {{spi::Kept(i % 2 == 0 ? *fake : *other), 1}}, [] {});
  bool found = false;
  detail::run_after(queue, {{spi::Kept(*over), 1}}, [&] { found = true; });
  over->finish(1);
  EXPECT_TRUE(queue.settle());
  EXPECT_TRUE(found);
  fake->finish(1);
  other->finish(1);
  queue.drain();
}

TEST_F(Releases, AreFoundBehindAnyNumberOfStreamsEachOfWhichIsAskedOnce) {
  constexpr int many = 130;
  int asked = 0;
  std::vector<FakeStream*> streams;
  std::vector<Stream> owners;
  for (int i = 0; i <= many; ++i) {
    owners.emplace_back(spi::Ref<spi::StreamState>::adopt(streams.emplace_back(new FakeStream)));
    streams.back()->behaviour.on_poll = [&] { ++asked; };
    streams.back()->put(FakeStream::fill());
  }
  const Occupied nobody_else_looks;
  for (int i = 0; i < 2 * many; ++i)
    detail::run_after(queue, {{spi::Kept(*streams[static_cast<std::size_t>(i % many)]), 1}}, [] {});
  bool found = false;
  detail::run_after(queue, {{spi::Kept(*streams.back()), 1}}, [&] { found = true; });
  streams.back()->finish(1);
  asked = 0;
  EXPECT_TRUE(queue.settle());
  EXPECT_TRUE(found);
  EXPECT_EQ(asked, many + 1);
  for (FakeStream* const each : streams) each->finish(1);
  queue.drain();
}

TEST_F(Releases, ThatComeWhileOneWaitsAreNotWaitedFor) {
  fake->put(FakeStream::fill());
  fake->put(FakeStream::fill());
  bool first = false, second = false;
  detail::run_after(queue, point(1), [&] {
    first = true;
    detail::run_after(queue, point(2), [&] { second = true; });
  });
  fake->finish(1);
  queue.drain();
  EXPECT_TRUE(first);
  EXPECT_FALSE(second);
  fake->finish(2);
  queue.drain();
  EXPECT_TRUE(second);
}

TEST_F(Releases, WaitForSeveralPointsInAnyOrder) {
  auto* const other = new FakeStream;
  const auto owner = spi::Ref<spi::StreamState>::adopt(other);
  fake->put(FakeStream::fill());
  other->put(FakeStream::fill());
  bool done = false;
  detail::run_after(queue, {{spi::Kept(*fake), 1}, {spi::Kept(*other), 1}}, [&] { done = true; });
  fake->finish(1);
  EXPECT_FALSE(queue.settle());
  EXPECT_FALSE(done);
  other->finish(1);
  queue.drain();
  EXPECT_TRUE(done);
}

// A queue may have a lock of the application's, for which whoever waits for the first point must not wait.
TEST_F(Releases, WaitForALaterPointWithoutMakingIt) {
  auto* const first = new FakeStream;
  const Stream others{spi::Ref<spi::StreamState>::adopt(first)};
  fake->put(FakeStream::fill());
  first->put(FakeStream::fill());
  std::promise<void> inside, go;
  std::atomic<bool> asked{false};
  fake->behaviour.on_mark = [&] {
    if (asked.exchange(true)) return;
    inside.set_value();
    go.get_future().wait();
  };
  const auto blocking = std::make_shared<WatchedResource>(freed, true);
  Buffer used = blocking->allocate(4096, home);
  used.use_on(stream);
  used.use_on(others);
  used.close();
  ASSERT_FALSE(asked) << "this is about the point that is waited for last";
  first->finish(1);
  inside.get_future().wait();  // of the library's thread
  first->settle();             // for ever, if that thread still has a waiter in hand
  fake->finish(1);
  go.set_value();
  blocking->trim(0);
  EXPECT_TRUE(freed);
}

TEST_F(Releases, OnALostTimelineWaitUntilItsWorkIsOver) {
  auto* gate = new FakeStream;
  const auto gate_owner = spi::Ref<spi::StreamState>::adopt(gate);
  gate->put(FakeStream::fill());
  fake->put(FakeStream::fill());
  fake->put(gate->wait_op(1));
  fake->put(FakeStream::fill());
  fake->refuse_next();  // what the worker tries behind the gate, which ends the timeline
  gate->finish(1);
  EXPECT_EQ(await_reports(1).size(), 1U);
  EXPECT_TRUE(fake->lost());
  release();
  resource->settle();
  EXPECT_FALSE(freed) << "the first fill still runs";
  fake->finish(2);
  resource->trim(0);
  EXPECT_TRUE(freed);
}

TEST_F(Releases, DoNotWaitForThemselves) {
  fake->put(FakeStream::fill());
  std::promise<bool> settled;
  detail::run_after(queue, point(1), [&] {
    const bool some = queue.settle();
    queue.drain();
    settled.set_value(some);
  });
  fake->finish(1);
  EXPECT_FALSE(settled.get_future().get());
  queue.drain();
}

TEST_F(Releases, OfARefusedFreeInOrderWaitForTheStream) {
  fake->put(FakeStream::fill());
  fake->put(spi::FreeOp{std::move(segment)});
  detail::settle_releases(host_device().state());
  EXPECT_FALSE(freed) << "the fill still runs";
  fake->finish(2);
  detail::drain_releases(host_device().state());
  EXPECT_TRUE(freed);
}

TEST_F(Releases, HeldBackOnALostTimelineWaitForWhatItHad) {
  auto* gate = new FakeStream;
  const auto gate_owner = spi::Ref<spi::StreamState>::adopt(gate);
  gate->put(FakeStream::fill());
  fake->put(FakeStream::fill());
  fake->put(gate->wait_op(1));
  fake->put(FakeStream::fill());
  fake->put(spi::FreeOp{std::move(segment)});
  std::promise<void> dropped;
  std::shared_ptr<void> behind(&dropped, [](void* promise) { static_cast<std::promise<void>*>(promise)->set_value(); });
  fake->put(FakeStream::call([behind = std::move(behind)] { FAIL() << "the timeline is lost"; }));
  fake->refuse_next();
  gate->finish(1);
  EXPECT_EQ(await_reports(1).size(), 1U);
  dropped.get_future().wait();
  detail::settle_releases(host_device().state());
  EXPECT_FALSE(freed) << "the first fill still runs";
  fake->finish(2);  // the wait was over, and is part of what it had
  detail::drain_releases(host_device().state());
  EXPECT_TRUE(freed);
}

TEST_F(Releases, AreDoneWhenTheDeviceIsBroken) {
  fake->put(FakeStream::fill());
  fake->break_device();
  EXPECT_FALSE(fake->reached(1));
  EXPECT_TRUE(fake->lost());
  release();
  EXPECT_TRUE(freed);
  EXPECT_EQ(take_reports().size(), 1U);
}

TEST_F(Releases, KeepWhatAHostFunctionUsesWhenTheTimelineIsLostMeanwhile) {
  std::promise<void> asked, answer, runs, end;
  std::atomic<bool> first{true};
  fake->behaviour.on_poll = [&, answered = answer.get_future().share()] {
    if (!first.exchange(false)) return;
    asked.set_value();
    answered.wait();
  };
  fake->put(FakeStream::fill());
  Thread other([&] { (void)fake->reached(1); });
  asked.get_future().wait();
  fake->put(FakeStream::call([&, ended = end.get_future().share()] {
    runs.set_value();
    ended.wait();
  }));
  fake->finish(1);
  runs.get_future().wait();
  fake->break_device();
  answer.set_value();
  other.join();
  EXPECT_TRUE(fake->lost());
  release();
  detail::settle_releases(host_device().state());
  EXPECT_FALSE(freed) << "the function still runs";
  end.set_value();
  detail::drain_releases(host_device().state());
  EXPECT_TRUE(freed);
  EXPECT_EQ(take_reports().size(), 1U);
}

}  // namespace
}  // namespace weir::test
