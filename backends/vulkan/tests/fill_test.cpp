// SPDX-License-Identifier: Apache-2.0
// Every offset, length and pattern, against a model.
#include <random>

#include "app.hpp"

namespace weir::vulkan::test {

class Fills : public OnVulkan {};

TEST_F(Fills, EveryOffsetAndLengthOfEveryPattern) {
  const Stream stream{device()};
  const auto resource = make_device_resource(device());
  constexpr std::size_t bytes = 64;
  constexpr std::uint64_t pattern = 0x8877665544332211;
  Buffer buffer = resource->allocate(bytes, stream);
  std::vector<std::byte> found(bytes), expected(bytes);
  for (std::size_t size : {1u, 2u, 4u, 8u}) {
    for (std::size_t offset = 0; offset < 9; ++offset) {
      for (std::size_t length = size; offset + length <= 40; length += size) {
        buffer.fill(std::byte{0xee}, stream);
        buffer.fill_pattern(pattern, size, offset, length, stream);
        buffer.copy_to(std::span(found), stream);
        stream.synchronize();
        expected.assign(bytes, std::byte{0xee});
        for (std::size_t i = 0; i < length; ++i) expected[offset + i] = static_cast<std::byte>(pattern >> i % size * 8);
        ASSERT_EQ(found, expected) << "pattern of " << size << " at " << offset << ", " << length << " bytes";
      }
    }
  }
}

TEST_F(Fills, RandomOnesWithoutWaiting) {
  std::mt19937 random(1);
  const Stream stream{device()};
  const auto resource = make_device_resource(device());
  constexpr std::size_t bytes = 300'000;
  Buffer buffer = resource->allocate(bytes, stream);
  std::vector<std::byte> found(bytes), expected(bytes);
  buffer.fill(std::byte{0}, stream);
  for (int i = 0; i < 400; ++i) {  // enough eight-byte patterns to use up the scratch memory of several batches
    const std::size_t size = std::size_t{1} << random() % 4;
    const std::size_t offset = random() % bytes;
    const std::size_t most = std::min<std::size_t>(bytes - offset, i % 4 ? 10'000 : bytes);
    const std::size_t length = random() % (most + 1) / size * size;
    const std::uint64_t pattern = std::uint64_t{random()} << 32 | random();
    buffer.fill_pattern(pattern, size, offset, length, stream);
    for (std::size_t k = 0; k < length; ++k) expected[offset + k] = static_cast<std::byte>(pattern >> k % size * 8);
  }
  buffer.copy_to(std::span(found), stream);
  stream.synchronize();
  EXPECT_EQ(found, expected);
}

}  // namespace weir::vulkan::test
