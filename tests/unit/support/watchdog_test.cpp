// SPDX-License-Identifier: Apache-2.0
// How long a watchdog waits for a test.

#include "watchdog.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace weir::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::hours limit{1};

TEST(Watchdogs, GiveATestItsLimit) {
  Watchdog watchdog(limit);
  const auto before = Clock::now();
  watchdog.watch("Some.Test");
  EXPECT_GE(watchdog.deadline(), before + limit);
  EXPECT_LE(watchdog.deadline(), Clock::now() + limit);
}

TEST(Watchdogs, GiveTheLimitAnewToATestThatGetsFurther) {
  Watchdog watchdog(limit);
  watchdog.watch("Some.Test");
  const auto first = watchdog.deadline();
  while (Clock::now() + limit <= first) continue;
  Watchdog::note_progress();
  EXPECT_GT(watchdog.deadline(), first);
}

}  // namespace
}  // namespace weir::test
