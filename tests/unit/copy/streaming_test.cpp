// SPDX-License-Identifier: Apache-2.0
// Copies around the caches are copies: at every alignment, of every length, and never of ranges that overlap.
#include "copy/streaming.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "bytes.hpp"
#include "copy/host_bytes.hpp"

namespace weir::test {
namespace {

using detail::copy_host;

TEST(Streaming, CopiesAnyLengthAtAnyAlignment) {
  const Bytes source = pattern(1000, 1), target = pattern(1000, 2);
  for (std::size_t to = 0; to < 66; to += 3) {
    for (std::size_t from = 0; from < 66; from += 7) {
      for (const std::size_t bytes : {0, 1, 15, 63, 64, 65, 127, 128, 200, 257, 512}) {
        Bytes copy = target, expected = target;
        std::memcpy(expected.data() + to, source.data() + from, bytes);
        detail::stream_bytes(copy.data() + to, source.data() + from, bytes);
        detail::end_streaming();
        ASSERT_BYTES(copy, expected) << bytes << " bytes from " << from << " to " << to;
      }
    }
  }
}

struct Plain final : spi::Segment {
  explicit Plain(Bytes& memory) {
    host = memory.data();
    size = memory.size();
  }
};

class LargeCopies : public testing::Test {
 protected:
  static constexpr std::size_t large = std::size_t{33} << 20;
  Bytes memory = pattern(large + 100, 3), model = memory;
  spi::Ref<Plain> segment = spi::Ref<Plain>::adopt(new Plain(memory));
};

TEST_F(LargeCopies, MayOverlap) {
  copy_host({segment.get(), 77}, std::span(memory).first(large));
  std::memmove(model.data() + 77, model.data(), large);
  ASSERT_TRUE(memory == model) << "upwards";
  copy_host(std::span(memory).first(large), {segment.get(), 33});
  std::memmove(model.data(), model.data() + 33, large);
  ASSERT_TRUE(memory == model) << "downwards";
}

TEST_F(LargeCopies, WriteNothingElse) {
  Bytes target = pattern(large + 100, 4), expected = target;
  auto there = spi::Ref<Plain>::adopt(new Plain(target));
  copy_host({there.get(), 13}, {segment.get(), 29}, large);
  std::memcpy(expected.data() + 13, model.data() + 29, large);
  EXPECT_TRUE(target == expected);
  EXPECT_TRUE(memory == model);
}

TEST_F(LargeCopies, OfRowsLeaveTheGaps) {
  Bytes target = pattern(large + (large >> 2), 5), expected = target;
  auto there = spi::Ref<Plain>::adopt(new Plain(target));
  const auto rows = large / 4096;
  const auto region = std::make_shared<spi::Region>(spi::Region{4096, {{rows, 4096 + 100, 4096}}});
  copy_host(spi::RegionOp{{there.get(), 5}, {segment.get(), 9}, region});
  for (std::size_t i = 0; i < rows; ++i) std::memcpy(expected.data() + 5 + i * 4196, model.data() + 9 + i * 4096, 4096);
  EXPECT_TRUE(target == expected);
}

}  // namespace
}  // namespace weir::test
