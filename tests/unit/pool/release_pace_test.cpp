// SPDX-License-Identifier: Apache-2.0
#include "pool/release_pace.hpp"

#include <gtest/gtest.h>

namespace weir::pool {
namespace {

int chances_until_taken(ReleasePace& pace) {
  int chances = 1;
  while (!pace.takes()) ++chances;
  return chances;
}

// So many times a pool gives memory back and grows again.
void give_and_grow(ReleasePace& pace, int times) {
  for (int i = 0; i < times; ++i) {
    pace.gave_back();
    pace.grew();
    (void)chances_until_taken(pace);
  }
}

TEST(ReleasePace, HalvesEachTimeThatMemoryIsNeededAgain) {
  ReleasePace pace;
  EXPECT_EQ(chances_until_taken(pace), 1);
  for (const int next : {1, 2, 4, 8, 16}) {
    pace.gave_back();
    pace.grew();
    EXPECT_EQ(chances_until_taken(pace), next);
  }
  give_and_grow(pace, 20);
  EXPECT_EQ(chances_until_taken(pace), 1 << 16) << "the rarest";
}

TEST(ReleasePace, DoublesEachTimeThatMemoryIsNotNeededAgain) {
  ReleasePace pace;
  give_and_grow(pace, 4);
  for (const int next : {16, 8, 4, 2, 1, 1}) {
    pace.gave_back();
    EXPECT_EQ(chances_until_taken(pace), next);
  }
}

// Memory may come home long after the chance: what happens until then says nothing.
TEST(ReleasePace, IsKeptUntilMemoryIsGivenBack) {
  ReleasePace pace;
  give_and_grow(pace, 3);
  for (int i = 0; i < 5; ++i) {
    pace.grew();
    EXPECT_EQ(chances_until_taken(pace), 8);
  }
}

}  // namespace
}  // namespace weir::pool
