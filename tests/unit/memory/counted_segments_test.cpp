// SPDX-License-Identifier: Apache-2.0
#include "memory/counted_segments.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace weir::test {
namespace {

class SizedSegment final : public spi::Segment {
 public:
  SizedSegment(std::size_t bytes, spi::SegmentId known_as) {
    size = bytes;
    set_id(known_as);
  }
  ~SizedSegment() override = default;
};

TEST(CountedSegments, CountEachOnce) {
  detail::CountedSegments all;
  SizedSegment one(100, {1, 2}), again(100, {1, 2}), other(30, {1, 3});
  auto first = all.count(one), second = all.count(again), third = all.count(other);
  EXPECT_EQ(all.bytes(), 130U);
  first.reset();
  EXPECT_EQ(all.bytes(), 130U);
  second.reset();
  EXPECT_EQ(all.bytes(), 30U);
  third.reset();
  EXPECT_EQ(all.bytes(), 0U);
}

// Where only the peer knows the identity, it may say the same of two segments of different sizes.
TEST(CountedSegments, TakeOffWhatTheyAdded) {
  detail::CountedSegments all;
  SizedSegment small(100, {1, 2}), large(1000, {1, 2});
  auto first = all.count(small), second = all.count(large);
  first.reset();
  second.reset();
  EXPECT_EQ(all.bytes(), 0U);
}

}  // namespace
}  // namespace weir::test
