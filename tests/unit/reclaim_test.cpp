// SPDX-License-Identifier: Apache-2.0
// When a segment goes back: after every point, also on lost timelines; never early, not even without memory or threads.

#include "reclaim.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "failing_new.hpp"
#include "fake_stream.hpp"
#include "sink.hpp"

namespace weir::test {
namespace {

class WatchedSegment final : public spi::Segment {
 public:
  explicit WatchedSegment(std::atomic<bool>& freed) : freed_(freed) {
    device = &host_device().state();
    size = 4096;
  }

 private:
  ~WatchedSegment() override { freed_ = true; }
  std::atomic<bool>& freed_;
};

class Listener final : public detail::ReclaimListener {
 public:
  void segment_released(std::size_t bytes) noexcept override { released += bytes; }
  std::atomic<std::size_t> released{0};
};

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
  fake->put(FakeStream::fill());
  fake->refuse_next();  // what the worker tries next, which ends the timeline
  fake->put(FakeStream::call([] {}));
  fake->put(FakeStream::fill());
  EXPECT_EQ(await_reports(1).size(), 1U);
  EXPECT_TRUE(fake->lost());
  release(point(3));
  detail::settle_releases(host_device().state());
  EXPECT_FALSE(freed) << "the first fill still runs";
  fake->finish(1);
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

TEST_F(Reclaim, LeaksRatherThanFreesEarlyWhenHandingOverFails) {
  for (int failing = 0;; ++failing) {
    std::atomic<bool> gone{false};
    auto mine = spi::Ref<spi::Segment>::adopt(new WatchedSegment(gone));
    spi::Segment* leaked = mine.get();
    fake->put(FakeStream::fill());
    auto points = point(fake->position());
    EXPECT_FALSE(fake->reached(points[0].value));  // marked, so that asking again needs no memory
    take_reports();
    fail_allocation_after(failing);
    detail::release_after(std::move(mine), std::move(points), true, listener, nullptr);
    const bool refused = allocation_failed();
    fail_allocation_after(-1);
    EXPECT_FALSE(gone) << "allocation " << failing;
    fake->finish(fake->position());
    detail::drain_releases(host_device().state());
    if (!refused) {
      EXPECT_GE(failing, 2) << "no failing allocation was tried";
      EXPECT_TRUE(take_reports().empty());
      break;
    }
    const auto reports = take_reports();
    ASSERT_EQ(reports.size(), 1U) << "allocation " << failing;
    EXPECT_EQ(reports[0].where, "release of memory");
    leaked->release();
    EXPECT_TRUE(gone);
  }
}

}  // namespace
}  // namespace weir::test
