// SPDX-License-Identifier: Apache-2.0
// Ranges within one memory: sizes match, ranges fit, overlap is refused.

#include <algorithm>
#include <cstdint>

#include "fixture.hpp"

namespace weir::test {
namespace {

class CopyRanges : public OnMemory {};
WEIR_FOR_EACH_MEMORY(CopyRanges);

TEST_P(CopyRanges, SizesMustMatch) {
  Buffer small = filled(pattern(300, 1));
  Buffer large = filled(pattern(301, 2));
  EXPECT_ERROR(small.copy_to(large, stream), Errc::invalid_argument, "300");
  EXPECT_ERROR(small.copy_to(large, stream), Errc::invalid_argument, "301");
  EXPECT_ERROR(small.copy_from(large, stream), Errc::invalid_argument, "301");
  EXPECT_BYTES(read(small, stream), pattern(300, 1));
  EXPECT_BYTES(read(large, stream), pattern(301, 2));
}

TEST_P(CopyRanges, RangesMustFit) {
  Buffer a = filled(pattern(100, 1));
  Buffer b = filled(pattern(50, 2));
  EXPECT_ERROR(a.copy_to(b, 0, 0, 51, stream), Errc::invalid_argument, "51");
  EXPECT_ERROR(a.copy_to(b, 41, 0, 10, stream), Errc::invalid_argument, "41");
  EXPECT_ERROR(a.copy_to(b, 0, 91, 10, stream), Errc::invalid_argument, "91");
  EXPECT_ERROR(a.copy_to(b, 51, 0, 0, stream), Errc::invalid_argument, "51");
  EXPECT_ERROR(a.copy_to(b, SIZE_MAX, 0, 2, stream), Errc::invalid_argument, "");
  EXPECT_ERROR(a.copy_to(b, 0, SIZE_MAX, 2, stream), Errc::invalid_argument, "");
  EXPECT_ERROR(a.copy_to(b, 1, 1, SIZE_MAX, stream), Errc::invalid_argument, "");
  EXPECT_ERROR(a.copy_from(b, 45, 0, 6, stream), Errc::invalid_argument, "45");
  EXPECT_ERROR(a.copy_from(b, 0, 95, 6, stream), Errc::invalid_argument, "95");
  EXPECT_BYTES(read(a, stream), pattern(100, 1));
  EXPECT_BYTES(read(b, stream), pattern(50, 2));
}

TEST_P(CopyRanges, SlicesAreBounds) {
  Buffer a = filled(pattern(100, 1));
  Buffer b = filled(pattern(100, 2));
  Buffer slice = b.slice(10, 20);
  EXPECT_ERROR(a.copy_to(slice, 0, 0, 21, stream), Errc::invalid_argument, "21");
  slice.copy_from(a, 5, 0, 20, stream);
  Bytes model = pattern(100, 2);
  std::copy_n(pattern(100, 1).begin() + 5, 20, model.begin() + 10);
  EXPECT_BYTES(read(b, stream), model);
}

TEST_P(CopyRanges, OverlapIsRefused) {
  Buffer buffer = filled(pattern(100, 1));
  Buffer share = buffer.share();
  Buffer low = buffer.slice(0, 60);
  Buffer high = buffer.slice(40, 60);
  EXPECT_ERROR(buffer.copy_from(buffer, 0, 10, 20, stream), Errc::invalid_argument, "overlap");
  EXPECT_ERROR(buffer.copy_from(buffer, 10, 0, 20, stream), Errc::invalid_argument, "overlap");
  EXPECT_ERROR(buffer.copy_to(share, stream), Errc::invalid_argument, "overlap");
  EXPECT_ERROR(low.copy_to(high, stream), Errc::invalid_argument, "overlap");
  EXPECT_ERROR(high.copy_to(low, stream), Errc::invalid_argument, "overlap");
  EXPECT_ERROR(share.copy_to(low, 58, 59, 2, stream), Errc::invalid_argument, "overlap");
  EXPECT_BYTES(read(buffer, stream), pattern(100, 1));
}

TEST_P(CopyRanges, NeighboursInOneBufferAreNoOverlap) {
  Bytes model = pattern(120, 1);
  Buffer buffer = filled(model);
  Buffer head = buffer.slice(0, 60);
  Buffer tail = buffer.slice(60, 60);
  buffer.copy_from(buffer, 0, 10, 10, stream);
  std::copy_n(model.begin(), 10, model.begin() + 10);
  buffer.copy_from(buffer, 50, 40, 10, stream);
  std::copy_n(model.begin() + 50, 10, model.begin() + 40);
  head.copy_to(tail, stream);
  std::copy_n(model.begin(), 60, model.begin() + 60);
  EXPECT_BYTES(read(buffer, stream), model);
}

TEST_P(CopyRanges, CopyToReturnsATwin) {
  const Bytes expected = pattern(777, 3);
  const Buffer buffer = filled(expected);
  const Buffer twin = buffer.copy_to(stream);
  EXPECT_EQ(twin.size(), buffer.size());
  EXPECT_EQ(twin.memory_resource(), resource);
  EXPECT_NE(twin.block(), buffer.block());
  EXPECT_BYTES(read(twin, stream), expected);
  EXPECT_BYTES(read(buffer.slice(7, 70).copy_to(stream), stream), std::span(expected).subspan(7, 70));
}

TEST_P(CopyRanges, ManySmallInOneGo) {
  constexpr std::size_t count = 300;
  const Bytes content = pattern(count * 7, 4);
  const Buffer source = filled(content);
  Buffer target = filled(repeat(count * 9, 0));
  Bytes model = repeat(count * 9, 0);
  for (std::size_t i = 0; i < count; ++i) {
    target.copy_from(source, i * 7, i * 9 + 1, 7, stream);
    std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(i * 7), 7,
                model.begin() + static_cast<std::ptrdiff_t>(i * 9 + 1));
  }
  EXPECT_BYTES(read(target, stream), model);
}

TEST_P(CopyRanges, ChainsOnOneStreamSeeEachOther) {
  Buffer a = filled(pattern(4097, 5));
  Buffer b = resource->allocate(4097, stream);
  Buffer c = resource->allocate(4097, stream);
  for (std::uint8_t round = 0; round < 20; ++round) {
    b.copy_from(a, stream);
    b.fill(round, round, 1, stream);
    c.copy_from(b, stream);
    a.copy_from(c, stream);
  }
  Bytes model = pattern(4097, 5);
  for (std::size_t round = 0; round < 20; ++round) model[round] = std::byte(round);
  EXPECT_BYTES(read(a, stream), model);
}

}  // namespace
}  // namespace weir::test
