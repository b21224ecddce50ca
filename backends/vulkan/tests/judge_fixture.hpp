// SPDX-License-Identifier: Apache-2.0
#pragma once
// Base of the suites that judge the judge.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <sstream>
#include <string>

#include "judged_vulkan.hpp"
#include "rig.hpp"

namespace weir::vulkan::test {

class Judge : public testing::Test {
 protected:
  using Batch = RigBatch;
  using Sort = Rig::Sort;

  void SetUp() override {
    std::string reason;
    rig = Rig::create(reason);
    if (!rig) GTEST_SKIP() << reason;
    a = rig->memory();
    b = rig->memory();
    c = rig->memory();
    done = rig->timeline();
    other = rig->timeline();
    ASSERT_EQ(weir::test::take_judgements(), "");
  }
  void TearDown() override {
    rig.reset();
    EXPECT_EQ(weir::test::take_judgements(), "") << "at the end";
  }

  /// Something was told since the last time, and all of it names `text`.
  static testing::AssertionResult told(const char* text) {
    const auto told = weir::test::take_judgements();
    std::istringstream lines(told);
    for (std::string line; std::getline(lines, line);) {
      if (line.find(text) == std::string::npos) return testing::AssertionFailure() << "told was\n" << told;
    }
    return told.empty() ? testing::AssertionFailure() << "nothing was told" : testing::AssertionSuccess();
  }
  static testing::AssertionResult silent() {
    const auto lines = weir::test::take_judgements();
    return lines.empty() ? testing::AssertionSuccess() : testing::AssertionFailure() << lines;
  }
  static std::uint32_t word_at(const std::byte* place) {
    std::uint32_t word = 0;
    std::memcpy(&word, place, sizeof word);
    return word;
  }

  std::unique_ptr<Rig> rig;
  Rig::Memory a, b, c;
  VkSemaphore done = VK_NULL_HANDLE, other = VK_NULL_HANDLE;
};

inline constexpr const char* unordered = "nothing orders the two";
inline constexpr const char* unavailable = "ordered, but the write is not made available";
inline constexpr const char* invisible = "ordered and available, but not visible to this access";
inline constexpr auto none = VkAccessFlags{0};

}  // namespace weir::vulkan::test
