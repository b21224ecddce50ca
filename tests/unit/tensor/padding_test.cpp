// SPDX-License-Identifier: Apache-2.0
// The padding that suits all users of a dimension.

#include "weir/padding.hpp"

#include <cstdint>
#include <limits>
#include <vector>

#include "expect.hpp"

namespace weir::test {
namespace {

constexpr std::int64_t max = std::numeric_limits<std::int64_t>::max();

TEST(PaddingNeeds, ChooseTheSmallestExtent) {
  EXPECT_EQ((PaddingNeeds{.size = 17}.extent()), 17);
  EXPECT_EQ((PaddingNeeds{.size = 17, .at_least = 20}.extent()), 20);
  EXPECT_EQ((PaddingNeeds{.size = 17, .at_least = 5}.extent()), 17);
  EXPECT_EQ((PaddingNeeds{.size = 17, .multiple_of = 8}.extent()), 24);
  EXPECT_EQ((PaddingNeeds{.size = 17, .at_least = 25, .multiple_of = 8}.extent()), 32);
  EXPECT_EQ((PaddingNeeds{.size = 16, .multiple_of = 8, .exact = true}.extent()), 16);
  EXPECT_EQ((PaddingNeeds{.size = 0, .multiple_of = 8}.extent()), 0);
}

TEST(PaddingNeeds, AlignRowsThatAreLongEnough) {
  EXPECT_EQ((PaddingNeeds{.size = 100, .aligned_to = 32}.extent()), 128);
  EXPECT_EQ((PaddingNeeds{.size = 32, .aligned_to = 32}.extent()), 32);
  EXPECT_EQ((PaddingNeeds{.size = 31, .aligned_to = 32}.extent()), 31) << "the row would be mostly padding";
  EXPECT_EQ((PaddingNeeds{.size = 100, .multiple_of = 12, .aligned_to = 32}.extent()), 192);
  EXPECT_EQ((PaddingNeeds{.size = 90, .multiple_of = 12, .aligned_to = 32}.extent()), 96);
  EXPECT_EQ((PaddingNeeds{.size = 80, .multiple_of = 12, .aligned_to = 32}.extent()), 84);
  EXPECT_EQ((PaddingNeeds{.size = 100, .aligned_to = 32, .exact = true}.extent()), 100);
  EXPECT_TRUE((PaddingNeeds{.size = 100, .aligned_to = 32}.allows(101))) << "it is only a wish";
}

// It is a wish, and a number that no extent reaches is larger than each.
TEST(PaddingNeeds, AlignToNoMultipleThatOverflows) {
  constexpr std::int64_t large = std::int64_t{1} << 40;
  EXPECT_EQ((PaddingNeeds{.size = 3, .multiple_of = large, .aligned_to = large - 1}.extent()), large);
  EXPECT_EQ((PaddingNeeds{.size = max - 1, .aligned_to = 4}.extent()), max - 1);
  EXPECT_EQ((PaddingNeeds{.size = max - 1, .multiple_of = 2, .aligned_to = 8}.extent()), max - 1);
}

TEST(PaddingNeeds, SayWhatTheyAllow) {
  const PaddingNeeds needs{.size = 10, .at_least = 14, .multiple_of = 4};
  EXPECT_TRUE(needs.allows(16));
  EXPECT_TRUE(needs.allows(20));
  EXPECT_FALSE(needs.allows(12));
  EXPECT_FALSE(needs.allows(18));
  const PaddingNeeds exact{.size = 10, .exact = true};
  EXPECT_TRUE(exact.allows(10));
  EXPECT_FALSE(exact.allows(11));
  EXPECT_FALSE(exact.allows(9));
  EXPECT_FALSE((PaddingNeeds{.size = -1}.allows(-1)));
  EXPECT_FALSE((PaddingNeeds{.size = 1, .multiple_of = 0}.allows(1)));
  EXPECT_FALSE((PaddingNeeds{.size = 1, .at_least = -1}.allows(1)));
}

TEST(PaddingNeeds, AreUnited) {
  const PaddingNeeds rounded{.size = 17, .at_least = 24}, even{.size = 17, .multiple_of = 6},
      aligned{.size = 17, .multiple_of = 4, .aligned_to = 32};
  const PaddingNeeds all = rounded.unite(even).unite(aligned);
  EXPECT_EQ(all.size, 17);
  EXPECT_EQ(all.at_least, 24);
  EXPECT_EQ(all.multiple_of, 12);
  EXPECT_EQ(all.aligned_to, 32);
  EXPECT_FALSE(all.exact);
  EXPECT_EQ(all.extent(), 24);
  EXPECT_TRUE((PaddingNeeds{.size = 8}.unite({.size = 8, .exact = true}).exact));
  EXPECT_TRUE((PaddingNeeds{.size = 8, .exact = true}.unite({.size = 8, .multiple_of = 4}).exact));
}

TEST(PaddingNeeds, ThatContradictEachOtherAreRefused) {
  EXPECT_ERROR((PaddingNeeds{.size = 8}.unite({.size = 9})), Errc::invalid_argument, "sizes 8 and 9 differ");
  const PaddingNeeds exact{.size = 10, .exact = true};
  EXPECT_ERROR((exact.unite({.size = 10, .at_least = 12})), Errc::invalid_argument,
               "size 10 must stay as it is, and must be padded to at least 12 and a multiple of 1");
  EXPECT_ERROR((PaddingNeeds{.size = 10, .multiple_of = 4}.unite(exact)), Errc::invalid_argument, "a multiple of 4");
  EXPECT_ERROR((PaddingNeeds{.size = 10, .multiple_of = 4, .exact = true}.extent()), Errc::invalid_argument, "10");
}

TEST(PaddingNeeds, NumbersThatAreNoneAreRefused) {
  EXPECT_ERROR((PaddingNeeds{.size = -1}.extent()), Errc::invalid_argument, "size -1 is negative");
  EXPECT_ERROR((PaddingNeeds{.size = 3, .at_least = -5}.extent()), Errc::invalid_argument, "extent -5 is negative");
  EXPECT_ERROR((PaddingNeeds{.size = 1, .multiple_of = 0}.extent()), Errc::invalid_argument, "multiple 0");
  EXPECT_ERROR((PaddingNeeds{.size = 1}.unite({.size = 1, .aligned_to = -2})), Errc::invalid_argument, "multiple -2");
  EXPECT_ERROR((PaddingNeeds{.size = max, .multiple_of = 2}.extent()), Errc::invalid_argument, "overflows 64 bits");
  EXPECT_ERROR((PaddingNeeds{.size = 1, .multiple_of = max}.unite({.size = 1, .multiple_of = max - 1})),
               Errc::invalid_argument, "common multiple");
}

TEST(PaddingNeeds, OfAllDimensionsGiveALayout) {
  const std::vector<PaddingNeeds> needs{{.size = 3, .multiple_of = 2},
                                        {.size = 100, .aligned_to = elements_per_line(f32)}};
  EXPECT_EQ(padded_shape(needs), (std::vector<std::int64_t>{4, 128}));
  EXPECT_EQ(Layout::padded(f32, {3, 100}, padded_shape(needs)).strides, (std::vector<std::int64_t>{128, 1}));
}

TEST(PaddingNeeds, LinesHaveWholeElements) {
  EXPECT_EQ(elements_per_line(f32), 32);
  EXPECT_EQ(elements_per_line(u8), 128);
  EXPECT_EQ(elements_per_line(c128), 8);
  EXPECT_EQ(elements_per_line({2, 32, 3}), 32) << "384 bytes";
  EXPECT_EQ(elements_per_line({2, 64, 32}), 1) << "elements larger than a line";
  EXPECT_EQ(elements_per_line(f32, 4), 1);
  EXPECT_ERROR(elements_per_line(f32, 0), Errc::invalid_argument, "elements_per_line: 0 bytes");
  EXPECT_EQ(elements_per_line(u8, max), max);
  EXPECT_ERROR(elements_per_line(u8, std::size_t{max} + 1), Errc::invalid_argument, "9223372036854775808 elements");
  EXPECT_ERROR(elements_per_line({1, 0, 1}), Errc::invalid_argument, "elements of 0");
}

}  // namespace
}  // namespace weir::test
