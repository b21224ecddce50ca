// SPDX-License-Identifier: Apache-2.0
// The patterns of the exclusions table.

#include "exclusions.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace weir::test
