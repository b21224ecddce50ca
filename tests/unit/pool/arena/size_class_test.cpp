// SPDX-License-Identifier: Apache-2.0
#include "pool/arena/size_class.hpp"

#include <gtest/gtest.h>

namespace weir::pool {
namespace {

TEST(SizeClass, GrowsWithTheSizeAndSkipsNone) {
  std::size_t last = 0;
  for (std::uint64_t granules = 1; granules <= 1U << 16U; ++granules) {
    const auto now = class_below(granules);
    ASSERT_TRUE(now == last || now == last + 1) << granules;
    last = now;
  }
  EXPECT_LT(class_below(most_bytes / granule), classes);
}

TEST(SizeClass, EveryMemberFitsEveryRoundedRequest) {
  for (std::uint64_t granules = 1; granules <= rounded_up_to; ++granules) {
    const auto got = rounded(granules);
    ASSERT_GE(got, granules);
    ASSERT_LT((got - granules) * 16, granules) << granules;
    ASSERT_EQ(rounded(got), got);
    ASSERT_TRUE(got == 1 || class_below(got - 1) < class_below(got)) << "not the smallest of its class";
  }
  EXPECT_EQ(rounded(rounded_up_to + 1), rounded_up_to + 1);
}

TEST(SizeClass, BytesRoundUpToGranules) {
  EXPECT_EQ(granules_for(1), 1U);
  EXPECT_EQ(granules_for(granule), 1U);
  EXPECT_EQ(granules_for(granule + 1), 2U);
}

}  // namespace
}  // namespace weir::pool
