// SPDX-License-Identifier: Apache-2.0
#include "ipc/channel/deadline.hpp"

#include <gtest/gtest.h>

#include <chrono>

#include "expect.hpp"

namespace weir::test {
namespace {

using detail::channel::Deadline;
using std::chrono::milliseconds;

TEST(DeadlineOfChannels, WhatTheClockCannotCountIsEndless) {
  for (const milliseconds timeout : {milliseconds(-1), milliseconds::min(), milliseconds::max(),
                                     std::chrono::duration_cast<milliseconds>(std::chrono::years(1000))}) {
    const Deadline deadline(timeout);
    EXPECT_TRUE(deadline.endless()) << timeout.count();
    EXPECT_EQ(deadline.milliseconds(), -1) << timeout.count();
    EXPECT_EQ(deadline.left(), milliseconds(-1)) << timeout.count();
    EXPECT_NO_THROW(deadline.check("late"));
  }
}

TEST(DeadlineOfChannels, TheLongestThatItCountsFitsPoll) {
  const Deadline deadline{std::chrono::duration_cast<milliseconds>(std::chrono::years(99))};
  EXPECT_FALSE(deadline.endless());
  EXPECT_EQ(deadline.milliseconds(), 1 << 30);
  EXPECT_GT(deadline.left(), std::chrono::years(98));
  EXPECT_NO_THROW(deadline.check("late"));
}

TEST(DeadlineOfChannels, NoTimeIsOverAtOnce) {
  const Deadline deadline(milliseconds{0});
  EXPECT_EQ(deadline.milliseconds(), 0);
  EXPECT_EQ(deadline.left(), milliseconds(0));
  EXPECT_ERROR(deadline.check("late"), Errc::timed_out, "late");
}

}  // namespace
}  // namespace weir::test
