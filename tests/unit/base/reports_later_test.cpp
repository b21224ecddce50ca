// SPDX-License-Identifier: Apache-2.0
#include "base/reports_later.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <mutex>
#include <string_view>

#include "ipc/turns.hpp"
#include "on_report.hpp"
#include "sink.hpp"
#include "threads.hpp"

namespace weir::test {
namespace {

using detail::ReportsLater;

void fail(std::string_view message) { report({{}, "a test", message}); }

TEST(ReportsLater, ToldByTheOutermostInOrder) {
  {
    const ReportsLater outer;
    fail("one");
    {
      const ReportsLater inner;
      fail("two");
      EXPECT_TRUE(inner.empty()) << "the outer one has it";
    }
    fail("three");
    EXPECT_FALSE(outer.empty());
    EXPECT_TRUE(take_reports().empty());
  }
  const auto reports = take_reports();
  ASSERT_EQ(reports.size(), 3U);
  EXPECT_EQ(reports[0].message, "one");
  EXPECT_EQ(reports[1].message, "two");
  EXPECT_EQ(reports[2].message, "three");
  EXPECT_EQ(reports[2].where, "a test");
  fail("four");
  EXPECT_EQ(take_reports().size(), 1U);
}

TEST(ReportsLater, KeepsThoseOfItsThreadAlone) {
  const ReportsLater later;
  {
    const Thread other([] { fail("another thread's"); });
  }
  EXPECT_EQ(take_reports().size(), 1U);
}

TEST(ReportsLater, TellsAtOnceWhatItCannotKeep) {
  const OnReport taken([] {});
  const ReportsLater later;
  fail({"", std::numeric_limits<std::size_t>::max() / 2});  // no string is as long
  EXPECT_EQ(taken.count(), 1);
}

TEST(ReportsLater, LetsTheSinkLockAndFail) {
  std::mutex mutex;
  const OnReport taken([&] {
    const ReportsLater later;
    const std::scoped_lock lock(mutex);
    fail("within the sink");
  });
  {
    const ReportsLater later;
    const std::scoped_lock lock(mutex);
    fail("under the lock");
    EXPECT_EQ(taken.count(), 0);
  }
  EXPECT_EQ(taken.count(), 2);
}

TEST(ReportsLater, TurnsAreOverBefore) {
  using detail::Turns;
  const detail::channel::Deadline now(std::chrono::milliseconds{0});
  Turns turns("a test");
  const OnReport taken([&] { EXPECT_NO_THROW(Turns::Turn(turns, now, "it is taken")); });
  {
    const Turns::Turn turn(turns, now, "it is taken");
    fail("in a turn");
    EXPECT_EQ(taken.count(), 0);
  }
  EXPECT_EQ(taken.count(), 1);
}

}  // namespace
}  // namespace weir::test
