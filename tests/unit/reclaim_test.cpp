// SPDX-License-Identifier: Apache-2.0
// When a segment goes back: after every point, also on lost timelines; never early. Without memory:
// failures/reclaim_test.cpp.

#include "reclaim.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "fake_stream.hpp"
#include "sink.hpp"
#include "watched_segment.hpp"

namespace weir::test {
namespace {

class Reclaim : public testing::Test {
 protected:
  void release(std::vector<spi::Point> points, bool release_blocks = false) {
    detail::release_after(std::move(segment), std::move(points), release_blocks, listener, nullptr);
  }
  std::vector<spi::Point> point(std::uint64_t value) { return {{stream, value}}; }

  FakeStream* fake = new FakeStream;
  spi::Ref<spi::StreamState> stream = spi::Ref<spi::StreamState>::adopt(fake);
  Listener listener;
  std::atomic<bool> freed{false};
  spi::Ref<spi::Segment> segment = spi::Ref<spi::Segment>::adopt(new WatchedSegment(freed));
};

TEST_F(Reclaim, FreesAtOnceWhenEverythingHasPassed) {
  fake->put(FakeStream::fill());
  fake->finish(1);
  release(point(1));
  EXPECT_TRUE(freed);
  EXPECT_EQ(listener.released, 4096U);
}

TEST_F(Reclaim, FreesAfterTheLastUse) {
  fake->put(FakeStream::fill());
  release(point(1));
  detail::settle_releases(host_device().state());
  EXPECT_FALSE(freed);
  fake->finish(1);
  detail::drain_releases(host_device().state());
  EXPECT_TRUE(freed);
}

TEST_F(Reclaim, LostTimelineKeepsMemoryUntilItsWorkIsOver) {
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
  release(point(3));
  detail::settle_releases(host_device().state());
  EXPECT_FALSE(freed) << "the first fill still runs";
  fake->finish(2);
  detail::drain_releases(host_device().state());
  EXPECT_TRUE(freed);
}

TEST_F(Reclaim, AnActionDoesNotWaitForItself) {
  const auto& host = host_device().state();
  fake->put(FakeStream::fill());
  std::promise<bool> settled;
  detail::run_after(host, point(1), [&] {
    const bool some = detail::settle_releases(host);
    detail::drain_releases(host);
    settled.set_value(some);
  });
  fake->finish(1);
  EXPECT_FALSE(settled.get_future().get());
  detail::drain_releases(host);
}

TEST_F(Reclaim, RefusedFreeInOrderWaitsForTheStream) {
  fake->put(FakeStream::fill());
  fake->put(spi::FreeOp{std::move(segment)});
  detail::settle_releases(host_device().state());
  EXPECT_FALSE(freed) << "the fill still runs";
  fake->finish(2);
  detail::drain_releases(host_device().state());
  EXPECT_TRUE(freed);
}

TEST_F(Reclaim, FreeHeldBackOnALostTimelineWaitsForWhatItHad) {
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

TEST_F(Reclaim, BrokenDeviceUsesNothingAnyMore) {
  fake->put(FakeStream::fill());
  fake->break_device();
  EXPECT_FALSE(fake->reached(1));
  EXPECT_TRUE(fake->lost());
  release(point(1));
  EXPECT_TRUE(freed);
  EXPECT_EQ(take_reports().size(), 1U);
}

TEST_F(Reclaim, KeepsWhatAHostFunctionUsesWhenTheTimelineIsLostMeanwhile) {
  std::promise<void> asked, answer, runs, end;
  std::atomic<bool> first{true};
  fake->behaviour.on_poll = [&, answered = answer.get_future().share()] {
    if (!first.exchange(false)) return;
    asked.set_value();
    answered.wait();
  };
  fake->put(FakeStream::fill());
  std::thread other([&] { EXPECT_FALSE(fake->reached(1)); });
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
  release(point(2));
  detail::settle_releases(host_device().state());
  EXPECT_FALSE(freed) << "the function still runs";
  end.set_value();
  detail::drain_releases(host_device().state());
  EXPECT_TRUE(freed);
  EXPECT_EQ(take_reports().size(), 1U);
}

}  // namespace
}  // namespace weir::test
