// SPDX-License-Identifier: Apache-2.0
// Which stream has which word of a page.
#include "ipc/channel/words.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>

namespace weir::test {
namespace {

using detail::page_words;
using detail::PagePoint;
using detail::channel::Words;

/// Words, and a page that shows what was reached.
struct Page {
  std::optional<std::uint32_t> of(std::uint64_t stream) {
    return words.of(stream, [this](PagePoint point) { return values[point.word] >= point.value; });
  }
  /// Give the stream's next point, which covers the stream up to `position`.
  PagePoint give(std::uint64_t stream, std::uint64_t position) {
    const PagePoint point = words.next(of(stream).value());
    words.give(point.word, position);
    return point;
  }
  Words words;
  std::array<std::uint64_t, page_words> values{};
};

TEST(Words, AreTheStreamsOwn) {
  Page page;
  EXPECT_EQ(page.of(5), 0U);
  EXPECT_EQ(page.of(6), 1U);
  EXPECT_EQ(page.of(5), 0U);
  EXPECT_EQ(page.give(5, 10), (PagePoint{0, 1}));
  EXPECT_EQ(page.give(5, 11), (PagePoint{0, 2}));
  EXPECT_EQ(page.give(6, 10), (PagePoint{1, 1}));
}

TEST(Words, GiveAPointAgainAsLongAsTheStreamStands) {
  Page page;
  const std::uint32_t word = page.of(5).value();
  EXPECT_FALSE(page.words.given(word, 10));
  const PagePoint point = page.give(5, 10);
  EXPECT_EQ(page.words.given(word, 10), point);
  EXPECT_FALSE(page.words.given(word, 11)) << "there is work behind it";
}

TEST(Words, AreNotTakenFromWhoeverNeedsThem) {
  Page page;
  for (std::uint64_t stream = 1; stream <= page_words; ++stream) page.give(stream, 1);
  EXPECT_FALSE(page.of(1000));
  EXPECT_EQ(page.of(17), 16U) << "it has one";
  page.values[99] = 1;
  EXPECT_EQ(page.of(1000), 99U);
  EXPECT_FALSE(page.words.given(99, 1)) << "the earlier stream's position";
  EXPECT_EQ(page.give(1000, 1), (PagePoint{99, 2})) << "values only grow";
  EXPECT_FALSE(page.of(1001));
  EXPECT_FALSE(page.of(100)) << "whose word went to another stream";
}

TEST(Words, StayWithAStreamWhoseNextPointIsOnItsWay) {
  Page page;
  for (std::uint64_t stream = 1; stream <= page_words; ++stream) page.give(stream, 1);
  page.values[99] = 1;
  EXPECT_TRUE(page.words.keep(99));
  EXPECT_FALSE(page.words.keep(99));
  EXPECT_FALSE(page.of(1000));
  page.words.release(99);
  EXPECT_EQ(page.of(1000), 99U);
}

TEST(Words, OfAnyNumberOfStreamsAreFew) {
  Page page;
  std::set<std::uint32_t> used;
  for (std::uint64_t stream = 1; stream <= 10 * page_words; ++stream) {
    const PagePoint point = page.give(stream, stream);
    EXPECT_GT(point.value, page.values[point.word]) << "it seems reached before it is";
    page.values[point.word] = point.value;
    used.insert(point.word);
  }
  EXPECT_EQ(used.size(), page_words);
}

}  // namespace
}  // namespace weir::test
