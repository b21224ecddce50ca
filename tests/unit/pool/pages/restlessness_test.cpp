// SPDX-License-Identifier: Apache-2.0
#include "pool/pages/restlessness.hpp"

#include <gtest/gtest.h>

namespace weir::pool {
namespace {

constexpr std::uint64_t pages = 200, in_use = 8000;

TEST(Restlessness, BeginsWhenHalfOfThePagesMoved) {
  Restlessness restlessness;
  restlessness.moved(99, pages, 0);
  EXPECT_FALSE(restlessness.wants_more(1, in_use, in_use));
  restlessness.moved(1, pages, 0);
  EXPECT_TRUE(restlessness.wants_more(1, in_use, in_use));
}

TEST(Restlessness, AFewPagesMayAlwaysMove) {
  Restlessness restlessness;
  restlessness.moved(63, 2, 0);
  EXPECT_FALSE(restlessness.wants_more(1, in_use, in_use));
  restlessness.moved(1, 2, 0);
  EXPECT_TRUE(restlessness.wants_more(1, in_use, in_use));
}

TEST(Restlessness, OneMoveForSixteenSearchesIsFree) {
  Restlessness restlessness;
  for (std::uint64_t searches = 0; searches < 16'000; searches += 160) restlessness.moved(10, pages, searches);
  EXPECT_FALSE(restlessness.wants_more(1, in_use, in_use));
  for (std::uint64_t searches = 16'000; searches < 20'000; searches += 80) restlessness.moved(10, pages, searches);
  EXPECT_TRUE(restlessness.wants_more(1, in_use, in_use));
}

TEST(Restlessness, AllowsAnEighthEachTime) {
  Restlessness restlessness;
  restlessness.moved(pages, pages, 0);
  EXPECT_FALSE(restlessness.wants_more(1001, in_use, in_use));
  EXPECT_TRUE(restlessness.wants_more(1000, in_use, in_use));
  restlessness.grew(600);
  EXPECT_FALSE(restlessness.wants_more(401, in_use, in_use));
  EXPECT_TRUE(restlessness.wants_more(400, in_use, in_use));
  restlessness.grew(500);  // pages are whole
  EXPECT_FALSE(restlessness.wants_more(1, in_use, in_use));
  restlessness.moved(pages / 2, pages, 0);
  EXPECT_TRUE(restlessness.wants_more(1000, in_use, in_use));
}

TEST(Restlessness, EndsAtHalfMoreThanIsInUse) {
  Restlessness restlessness;
  restlessness.moved(pages, pages, 0);
  EXPECT_TRUE(restlessness.wants_more(1000, 11'000, in_use));
  EXPECT_FALSE(restlessness.wants_more(1000, 11'001, in_use));
}

TEST(Restlessness, GivesUpWhenThereIsNoMore) {
  Restlessness restlessness;
  restlessness.moved(pages, pages, 0);
  EXPECT_TRUE(restlessness.wants_more(1, in_use, in_use));
  restlessness.failed();
  EXPECT_FALSE(restlessness.wants_more(1, in_use, in_use));
}

}  // namespace
}  // namespace weir::pool
