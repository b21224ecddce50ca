// SPDX-License-Identifier: Apache-2.0
// A release that cannot be handed over leaks and says so, rather than frees what is still in use.
#include "reclaim.hpp"

#include <gtest/gtest.h>

#include "inject/allocations.hpp"
#include "sink.hpp"
#include "unit/fake_stream.hpp"
#include "unit/watched_segment.hpp"

namespace weir::test {
namespace {

// Two outcomes are right when there is no memory: leaked and reported at once, or reported, kept, and freed in time.
TEST(Reclaim, NeverFreesEarlyWhenHandingOverFails) {
  auto* fake = new FakeStream;
  const auto stream = spi::Ref<spi::StreamState>::adopt(fake);
  Listener listener;
  FailingAllocations injector(host_device());
  std::size_t leaks = 0;
  for (std::size_t nth = 1;; ++nth) {
    SCOPED_TRACE("allocation " + std::to_string(nth));
    std::atomic<bool> gone{false};
    auto mine = spi::Ref<spi::Segment>::adopt(new WatchedSegment(gone));
    spi::Segment* segment = mine.get();
    fake->put(FakeStream::fill());
    std::vector<spi::Point> points{{stream, fake->position()}};
    EXPECT_FALSE(fake->reached(points[0].value));  // marked, so that asking again needs no memory
    take_reports();
    injector.arm(nth, 0);
    detail::release_after(std::move(mine), std::move(points), true, listener, nullptr);
    const bool refused = injector.disarm().has_value();
    EXPECT_FALSE(gone);
    fake->finish(fake->position());
    detail::drain_releases(host_device().state());
    const auto reports = take_reports();
    if (!refused) {
      EXPECT_TRUE(gone);
      EXPECT_TRUE(reports.empty());
      break;
    }
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_EQ(reports[0].where, "release of memory");
    if (reports[0].message.find("leaked") == std::string::npos) {
      EXPECT_TRUE(gone) << "kept for ever, and nothing says that it leaks";
      continue;
    }
    EXPECT_FALSE(gone) << "freed although it says that it leaks";
    segment->release();
    ++leaks;
  }
  EXPECT_GE(leaks, 2U) << "no failing allocation was tried";
}

}  // namespace
}  // namespace weir::test
