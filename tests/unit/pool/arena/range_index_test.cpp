// SPDX-License-Identifier: Apache-2.0
#include "pool/arena/range_index.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

namespace weir::pool {
namespace {

using Search = RangeIndex::Search;

class RangeIndexTest : public testing::Test {
 protected:
  Range& range(std::uint32_t granules) {
    Range& made = ranges.emplace_back();
    made.granules = granules;
    return made;
  }
  std::deque<Range> ranges;
  RangeIndex index;
};

TEST_F(RangeIndexTest, AThoroughSearchFindsWhateverFits) {
  std::mt19937 random(5);
  std::vector<Range*> inside;
  for (int step = 0; step < 20000; ++step) {
    const auto size = std::uint32_t{1} << (random() % 31) | static_cast<std::uint32_t>(random() % 64);
    if (random() % 2 == 0) {
      inside.push_back(&range(size));
      index.insert(*inside.back());
    } else if (random() % 4 == 0 && !inside.empty()) {
      std::swap(inside[random() % inside.size()], inside.back());
      index.remove(*inside.back());
      inside.pop_back();
    } else {
      const bool fits = std::any_of(inside.begin(), inside.end(), [&](Range* each) { return each->granules >= size; });
      Range* const found = index.take(size, Search::thorough);
      ASSERT_EQ(found != nullptr, fits) << size;
      if (!found) continue;
      ASSERT_GE(found->granules, size);
      ASSERT_EQ(std::erase(inside, found), 1U);
    }
    std::uint64_t most = 0;
    for (const Range* each : inside) most = std::max<std::uint64_t>(most, each->granules);
    ASSERT_EQ(index.largest(), most);
    ASSERT_EQ(index.empty(), inside.empty());
  }
}

TEST_F(RangeIndexTest, AQuickSearchLooksAtFewOfTheOwnClass) {
  Range& fits = range(131);  // in one class with 128
  index.insert(fits);
  for (int i = 0; i < 4; ++i) index.insert(range(128));
  EXPECT_EQ(index.take(131, Search::quick), nullptr);
  Range& larger = range(400);
  index.insert(larger);
  EXPECT_EQ(index.take(131, Search::quick), &larger);
  EXPECT_EQ(index.take(131, Search::thorough), &fits);
}

TEST_F(RangeIndexTest, TheSmallestClassThatFitsIsTaken) {
  Range& small = range(40);
  Range& large = range(4000);
  index.insert(large);
  index.insert(small);
  EXPECT_EQ(index.take(33, Search::quick), &small);
  EXPECT_EQ(index.take(33, Search::quick), &large);
  EXPECT_EQ(index.take(1, Search::thorough), nullptr);
}

}  // namespace
}  // namespace weir::pool
