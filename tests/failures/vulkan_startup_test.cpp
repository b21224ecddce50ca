// SPDX-License-Identifier: Apache-2.0
// The Vulkan driver refuses while weir finds it and opens a device: each of those calls fails once with each of its
// errors, in a process of its own, because a process does that once.
#include <gtest/gtest.h>
#include <stdlib.h>

#include "spawn.hpp"
#include "weir/device.hpp"

namespace weir::test {
namespace {

struct Started {
  std::string call, code;
  std::size_t codes = 0;
  std::string first, second, reports;
};

Started start(std::size_t nth, std::size_t code) {
  Child child(WEIR_CHILD_DIR "/startup_program", {std::to_string(nth), std::to_string(code)});
  Started started{child.line(), child.line(), 0, {}, {}, {}};
  started.codes = std::stoul('0' + child.line());
  started.first = child.line();
  started.second = child.line();
  started.reports = child.line();
  EXPECT_EQ(child.wait(), 0);
  return started;
}

class VulkanStart : public testing::Test {
 protected:
  void SetUp() override {
    for (const BackendInfo& backend : backends()) {
      if (backend.name == "vulkan" && backend.devices.empty()) GTEST_SKIP() << backend.unavailable_because;
    }
  }
};

// Every fourth call, from the given one on: some drivers start for seconds, one process after the other.
constexpr std::size_t parts = 4;

class VulkanStartCalls : public VulkanStart, public testing::WithParamInterface<std::size_t> {};

INSTANTIATE_TEST_SUITE_P(From, VulkanStartCalls, testing::Range<std::size_t>(1, parts + 1),
                         testing::PrintToStringParamName());

TEST_P(VulkanStartCalls, AreNamedAndItWorksNextTimeOrNever) {
  constexpr std::size_t most_calls = 60;
  int injected = 0;
  for (std::size_t nth = GetParam(), codes = 1; codes != 0; nth += parts) {
    ASSERT_LT(nth, most_calls);
    for (std::size_t code = 0; code == 0 || code < codes; ++code) {
      const Started started = start(nth, code);
      codes = started.codes;
      if (codes == 0) {
        EXPECT_EQ(started.first, "works") << "although nothing failed";
        EXPECT_EQ(started.reports, "");
        break;
      }
      ++injected;
      SCOPED_TRACE("call " + std::to_string(nth) + ", " + started.call + ": " + started.code);
      const bool gone = started.first.starts_with("unavailable");
      EXPECT_TRUE(started.call != "vkCreateInstance" || gone) << started.first;
      EXPECT_TRUE(started.call != "vkCreateDevice" || started.first.starts_with("throws")) << started.first;
      // The end of a stream asks, too; what is not known to be over is kept, and asked again later.
      const bool harmless = started.call == "vkGetSemaphoreCounterValue" && started.first == "works";
      EXPECT_TRUE(harmless || (started.first + started.reports).find(started.call) != std::string::npos)
          << started.first << "; " << started.reports;
      EXPECT_EQ(started.second, gone ? started.first : "works");
    }
  }
  EXPECT_GT(injected, 0);
  RecordProperty("injected_failures", injected);
}

TEST_F(VulkanStart, ADriverWithoutAFunctionIsNamed) {
  ASSERT_EQ(setenv("WEIR_HIDE_VULKAN_FUNCTION", "vkCmdFillBuffer", 1), 0);  // read by the child's loader
  const Started started = start(0, 0);
  ASSERT_EQ(unsetenv("WEIR_HIDE_VULKAN_FUNCTION"), 0);
  EXPECT_TRUE(started.first.starts_with("throws: ")) << started.first;
  EXPECT_NE(started.first.find("its driver has no vkCmdFillBuffer"), std::string::npos) << started.first;
  EXPECT_EQ(started.second, started.first);
  EXPECT_EQ(started.reports, "");
}

}  // namespace
}  // namespace weir::test
