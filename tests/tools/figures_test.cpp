// SPDX-License-Identifier: Apache-2.0
// Percentiles, halves, and the columns of the picture.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "replay/figures.hpp"
#include "replay/profile.hpp"
#include "replay/read_trace.hpp"
#include "replay/spec.hpp"

namespace weir::replay {
namespace {

TEST(Summaries, AreNearestRanks) {
  std::vector<std::uint64_t> times(1000);
  std::iota(times.begin(), times.end(), 1);
  std::shuffle(times.begin(), times.end(), std::mt19937(1));
  const Summary all = summarize(times);
  EXPECT_EQ(all.count, 1000U);
  EXPECT_EQ(all.p50, 500U);
  EXPECT_EQ(all.p99, 990U);
  EXPECT_EQ(all.p999, 999U);
  EXPECT_EQ(all.max, 1000U);
  EXPECT_EQ(all.total, 500500U);
}

TEST(Summaries, OfFewTimesAreTimesThatWereSeen) {
  EXPECT_EQ(summarize({}).count, 0U);
  std::vector<std::uint64_t> one{7}, two{9, 3}, three{1, 2, 30};
  EXPECT_EQ(summarize(one).p50, 7U);
  EXPECT_EQ(summarize(one).p999, 7U);
  EXPECT_EQ(summarize(two).p50, 3U);
  EXPECT_EQ(summarize(two).p99, 9U);
  EXPECT_EQ(summarize(three).p50, 2U);
  EXPECT_EQ(summarize(three).p99, 30U);
}

TEST(Figures, KeepTheHalvesApartAndLeaveOutWhatWasNotDone) {
  const Trace trace =
      parse_trace("op,addr,size,stream\na,1,1,0\na,2,1,0\nf,1,1,0\na,3,1,0\na,4,1,0\nf,2,1,0\n");
  Pass pass;
  pass.times = {10, 20, 5, 40, Pass::not_done, 6};
  const auto rows = figures_of(trace, pass).rows;
  ASSERT_EQ(rows.size(), 6U) << "allocate and close, each in three parts";
  const auto expect = [&](std::size_t row, Action action, Part part, std::size_t count, std::uint64_t max) {
    EXPECT_EQ(rows[row].action, action);
    EXPECT_EQ(rows[row].part, part);
    EXPECT_EQ(rows[row].summary.count, count);
    EXPECT_EQ(rows[row].summary.max, max);
  };
  expect(0, Action::allocate, Part::first_half, 2, 20);
  expect(1, Action::allocate, Part::second_half, 1, 40);
  expect(2, Action::allocate, Part::whole, 3, 40);
  expect(3, Action::close, Part::first_half, 1, 5);
  expect(4, Action::close, Part::second_half, 1, 6);
  expect(5, Action::close, Part::whole, 2, 6);
}

TEST(Ratio, OfNothingIsNothing) {
  EXPECT_EQ(ratio(5, 0), 0.0);
  EXPECT_EQ(ratio(3, 2), 1.5);
}

TEST(Profiles, ShowLeastAndMostOfEachColumn) {
  const Trace trace = parse_trace(
      "op,addr,size,stream\na,1,1000,0\na,2,3000,0\nf,2,3000,0\nf,1,1000,0\na,3,500,0\nf,3,500,0\n");
  const Profile wide = profile(trace, Spec("host").make(), 100);
  ASSERT_EQ(wide.columns.size(), 6U) << "no more columns than operations";
  const std::vector<std::uint64_t> live{1000, 4000, 1000, 0, 500, 0};
  for (std::size_t i = 0; i < live.size(); ++i) {
    EXPECT_EQ(wide.columns[i].live.low, live[i]);
    EXPECT_EQ(wide.columns[i].live.high, live[i]);
    EXPECT_GE(wide.columns[i].reserved.high, live[i]);
  }
  EXPECT_FALSE(wide.has_segments);
  const std::vector<std::uint64_t> buffers{1, 2, 1, 0, 1, 0};
  for (std::size_t i = 0; i < buffers.size(); ++i) EXPECT_EQ(wide.columns[i].segments.high, buffers[i]);

  const Profile narrow = profile(trace, Spec("pool(host, segment=1MiB)").make(), 2);
  ASSERT_EQ(narrow.columns.size(), 2U);
  EXPECT_EQ(narrow.columns[0].begin, 0U);
  EXPECT_EQ(narrow.columns[0].end, 3U);
  EXPECT_EQ(narrow.columns[0].live.low, 1000U);
  EXPECT_EQ(narrow.columns[0].live.high, 4000U);
  EXPECT_EQ(narrow.columns[1].live.low, 0U);
  EXPECT_EQ(narrow.columns[1].live.high, 500U);
  EXPECT_TRUE(narrow.has_segments);
  EXPECT_EQ(narrow.columns[1].reserved.low, 1U << 20U);
  EXPECT_EQ(narrow.columns[1].segments.high, 1U);
  EXPECT_EQ(narrow.failures, 0U);
}

TEST(Profiles, GoOnAfterAFailure) {
  const Trace trace =
      parse_trace("op,addr,size,stream\na,1,1000,0\na,2,3000000,0\nf,2,3000000,0\nf,1,1000,0\n");
  const Profile limited = profile(trace, Spec("pool(host, limit=1MiB, segment=1MiB)").make(), 4);
  EXPECT_EQ(limited.failures, 1U);
  EXPECT_EQ(limited.columns[1].live.high, 1000U);
  EXPECT_EQ(limited.columns[3].live.high, 0U);
}

}  // namespace
}  // namespace weir::replay
