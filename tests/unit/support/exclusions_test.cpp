// SPDX-License-Identifier: Apache-2.0
// The patterns of the exclusions table, and what a line of it does to a test that fails and to one that passes.

#include "exclusions.hpp"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "fixture.hpp"

namespace weir::test {
namespace {

TEST(Exclusions, Patterns) {
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("*", "anything"));
  EXPECT_TRUE(matches("Every/Fill.*/vulkan_?_device", "Every/Fill.Whole/vulkan_0_device"));
  EXPECT_TRUE(matches("a*b*c", "a--b--b--c"));
  EXPECT_FALSE(matches("", "x"));
  EXPECT_FALSE(matches("a?c", "ac"));
  EXPECT_FALSE(matches("Every/Fill.*/vulkan_?_device", "Every/Fill.Whole/vulkan_0_device_exportable"));
  EXPECT_FALSE(matches("a*b", "a--c"));
}

TEST(Exclusions, NobodyIsExcludedByAccident) { EXPECT_EQ(excluded("Every/Nothing.Here/host_0_pageable"), nullptr); }

/// A test that a line covers or not, run by hand.
class Subject : public Excludable {
 public:
  explicit Subject(const Exclusion* line) : line_(line) {}

  /// What GoogleTest is told of it.
  template <class Body>
  std::vector<testing::TestPartResult> run(Body body) {
    testing::TestPartResultArray told;
    {
      const testing::ScopedFakeTestPartResultReporter listen(
          testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &told);
      SetUp();
      body();
      TearDown();
    }
    std::vector<testing::TestPartResult> all;
    for (int i = 0; i < told.size(); ++i) all.push_back(told.GetTestPartResult(i));
    return all;
  }

 private:
  void TestBody() override {}
  [[nodiscard]] const Exclusion* exclusion() const override { return line_; }
  const Exclusion* line_;
};

/// What was told, with or without the line's end that some versions of GoogleTest add.
std::string line_of(const testing::TestPartResult& told) {
  std::string text = told.message();
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

constexpr Exclusion line{"Suite.Test", Lasting::this_machine, "the driver has no such thing"};

TEST(ExcludedTests, AFailureIsOneSkipWithTheReason) {
  const auto told = Subject(&line).run([] {
    ADD_FAILURE() << "first";
    EXPECT_EQ(1, 2) << "second";
  });
  ASSERT_EQ(told.size(), 1U);
  EXPECT_TRUE(told[0].skipped());
  EXPECT_EQ(line_of(told[0]), "this machine: the driver has no such thing");
}

TEST(ExcludedTests, AFailureOfAnotherThreadCounts) {
  const auto told = Subject(&line).run([] { std::thread([] { ADD_FAILURE(); }).join(); });
  ASSERT_EQ(told.size(), 1U);
  EXPECT_TRUE(told[0].skipped());
}

TEST(ExcludedTests, APassIsAFailureThatNamesTheTable) {
  const auto told = Subject(&line).run([] { EXPECT_EQ(1, 1); });
  ASSERT_EQ(told.size(), 1U);
  EXPECT_TRUE(told[0].failed());
  EXPECT_NE(std::string(told[0].message()).find("exclusions.cpp"), std::string::npos);
}

TEST(ExcludedTests, OthersAreLeftAlone) {
  EXPECT_EQ(Subject(nullptr).run([] {}).size(), 0U);
  const auto told = Subject(nullptr).run([] { ADD_FAILURE() << "plain"; });
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(line_of(told[0]), "Failed\nplain");
}

TEST(Subsets, EveryMemoryIsInOneOfTwoOrExcluded) {
  const auto all = memories().size();
  EXPECT_EQ(crossed("Never", addressable).size() + crossed("Never", unaddressable).size(), all);
  for (const LeftOut& entry : left_out()) {
    if (entry.suite != "Never") continue;
    EXPECT_TRUE(entry.why.starts_with("not built: ")) << entry.why;
    EXPECT_EQ(entry.cases, entry.memories.size());
    EXPECT_EQ(entry.cases, crossed("Never again", unaddressable).size());
  }
}

TEST(Exclusions, TheirWordIsReadBack) {
  for (const Lasting lasting : {Lasting::permanent, Lasting::not_built, Lasting::this_machine}) {
    EXPECT_TRUE(says_why(why(lasting, "reason")));
  }
  EXPECT_FALSE(says_why("needs two CUDA devices"));
}

// CUDA's pools and cuMemAlloc's memory have handles for other processes, and page-locked memory may be a file's.
TEST(Subsets, OnlyMemoryThatCannotBeSharedIsSaidNotToBe) {
  const Device host = host_device();
  for (int number = 0; number <= static_cast<int>(MemoryKind::external); ++number) {
    const Memory memory{.device = host, .info = {.kind = static_cast<MemoryKind>(number)}};
    const auto lack = exportable.lacks(memory);
    ASSERT_TRUE(lack.has_value());
    const bool never = memory.info.kind == MemoryKind::pageable || memory.info.kind == MemoryKind::managed;
    EXPECT_EQ(lack->lasting == Lasting::permanent, never) << memory.name() << ": " << lack->reason;
  }
}

TEST(Subsets, StackedMemoriesHaveNamesOfTheirOwn) {
  std::vector<std::string> names;
  for (const Memory& memory : memories()) names.push_back(memory.name());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  EXPECT_FALSE(stacked_memories().empty());
}

}  // namespace
}  // namespace weir::test
