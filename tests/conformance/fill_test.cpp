// SPDX-License-Identifier: Apache-2.0
// Patterns of 1, 2, 4 and 8 bytes at any offset; what is beside them stays.

#include <array>
#include <cstdint>
#include <cstring>

#include "fixture.hpp"

namespace weir::test {
namespace {

class Fill : public OnMemory {
 protected:
  /// Fill a range of a patterned buffer and compare all of it with a model.
  template <class T>
  void check(T value, std::size_t size, std::size_t offset, std::size_t bytes) {
    Bytes model = pattern(size, 77);
    Buffer buffer = resource->allocate(size, stream);
    write(buffer, model, stream);
    buffer.fill(value, offset, bytes, stream);
    for (std::size_t at = 0; at < bytes; at += sizeof value) {
      std::memcpy(model.data() + offset + at, &value, sizeof value);
    }
    EXPECT_BYTES(read(buffer, stream), model)
        << sizeof value << "-byte pattern, " << bytes << " bytes at " << offset << " of " << size;
  }
};
WEIR_FOR_EACH_MEMORY(Fill);

TEST_P(Fill, OneBytePatternsAtEveryPhase) {
  for (std::size_t offset = 0; offset < 5; ++offset) {
    for (const std::size_t bytes : {1U, 2U, 3U, 4U, 5U, 7U, 8U, 13U}) check(std::uint8_t{0xa5}, 32, offset, bytes);
  }
}

TEST_P(Fill, TwoBytePatternsAtEveryPhase) {
  for (std::size_t offset = 0; offset < 5; ++offset) {
    for (const std::size_t bytes : {2U, 4U, 6U, 10U}) check(std::uint16_t{0x1234}, 32, offset, bytes);
  }
}

TEST_P(Fill, FourBytePatternsAtEveryPhase) {
  for (std::size_t offset = 0; offset < 5; ++offset) {
    for (const std::size_t bytes : {4U, 8U, 20U}) check(std::uint32_t{0x12345678}, 32, offset, bytes);
  }
}

TEST_P(Fill, EightBytePatternsAtEveryPhase) {
  for (std::size_t offset = 0; offset < 9; ++offset) {
    for (const std::size_t bytes : {8U, 16U, 40U}) check(std::uint64_t{0x0123456789abcdef}, 64, offset, bytes);
  }
}

TEST_P(Fill, PatternsThatRepeatInside) {
  check(std::uint64_t{0x7777777777777777}, 64, 3, 40);
  check(std::uint64_t{0x1234567812345678}, 64, 5, 48);
  check(std::uint32_t{0xabababab}, 64, 1, 60);
  check(std::uint16_t{0}, 64, 7, 50);
}

TEST_P(Fill, LargeWithUnevenEnds) {
  check(std::uint8_t{0xfe}, 300001, 1, 299999);
  check(std::uint64_t{0xfedcba9876543210}, 1000003, 3, 1000000);
}

TEST_P(Fill, OtherTypesOfThoseSizes) {
  check(1.5F, 64, 4, 40);
  check(-2.5, 64, 8, 40);
  check(std::byte{9}, 64, 2, 40);
  check(std::array<std::uint8_t, 4>{1, 2, 3, 4}, 64, 2, 40);
}

TEST_P(Fill, WholeBuffer) {
  Buffer buffer = resource->allocate(1002, stream);
  buffer.fill(std::uint16_t{0x0102}, stream);
  Bytes expected = repeat(1002, 2);
  for (std::size_t i = 1; i < expected.size(); i += 2) expected[i] = std::byte{1};
  EXPECT_BYTES(read(buffer, stream), expected);
}

TEST_P(Fill, SlicesFillOnlyTheirRange) {
  Bytes model = pattern(300, 3);
  Buffer buffer = filled(model);
  Buffer slice = buffer.slice(101, 50);
  slice.fill(std::uint8_t{1}, stream);
  slice.fill(std::uint16_t{0x2222}, 9, 12, stream);
  std::fill_n(model.begin() + 101, 50, std::byte{1});
  std::fill_n(model.begin() + 110, 12, std::byte{0x22});
  EXPECT_BYTES(read(buffer, stream), model);
}

TEST_P(Fill, LaterFillsWin) {
  Buffer buffer = resource->allocate(4096, stream);
  for (std::uint8_t i = 0; i < 100; ++i) buffer.fill(i, i, 4096U - 2U * i, stream);
  Bytes expected(4096);
  for (std::size_t i = 0; i < 100; ++i)
    std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(i), 4096 - 2 * i, std::byte(i));
  EXPECT_BYTES(read(buffer, stream), expected);
}

TEST_P(Fill, OnStreamsOfEveryDevice) {
  for (const Device& other : devices()) {
    const Stream theirs(other);
    Buffer buffer = filled(pattern(100, 8));
    buffer.fill(std::uint32_t{0x01020304}, 3, 80, theirs);
    theirs.synchronize();
    Bytes expected = pattern(100, 8);
    for (std::size_t i = 0; i < 80; ++i) expected[3 + i] = std::byte(4 - i % 4);
    EXPECT_BYTES(read(buffer, stream), expected) << other.id();
  }
}

}  // namespace
}  // namespace weir::test
