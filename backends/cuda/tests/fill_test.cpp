// SPDX-License-Identifier: Apache-2.0
// Every pattern at every offset: the driver's fills are aligned, weir's are not.
#include <cstring>

#include "bytes.hpp"
#include "native.hpp"

namespace weir::cuda_test {
namespace {

using test::Bytes;

class Fill : public CudaTest {
 protected:
  static void expect(Bytes& model, std::uint64_t value, std::size_t width, std::size_t offset, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) {
      model[offset + i] = static_cast<std::byte>(value >> (8 * (i % width)));
    }
  }
  static void sweep(const ResourcePtr& resource) {
    const Stream stream(gpu());
    constexpr std::size_t size = 256;
    for (std::uint64_t value : {0xf1e2d3c4b5a69788ULL, 0x1111222211112222ULL, 0x3434343434343434ULL, 0ULL}) {
      for (std::size_t width : {1, 2, 4, 8}) {
        for (std::size_t offset = 0; offset < 9; ++offset) {
          Buffer buffer = resource->allocate(size * 5, stream);
          buffer.fill(std::byte{0xee}, stream);
          Bytes model = test::repeat(size * 5, 0xee);
          std::size_t row = 0;
          for (std::size_t count : {1, 2, 3, 4, 25}) {
            const auto at = row++ * size + offset;
            buffer.fill_pattern(value, width, at, count * width, stream);
            expect(model, value, width, at, count * width);
          }
          ASSERT_BYTES(test::read(buffer, stream), model)
              << "value " << std::hex << value << " width " << width << " offset " << offset;
        }
      }
    }
  }
};

TEST_F(Fill, DeviceMemory) { sweep(cuda::make_device_resource(gpu())); }
TEST_F(Fill, PinnedMemory) { sweep(cuda::make_pinned_resource(gpu())); }

TEST_F(Fill, LargeEightBytePatterns) {
  const Stream stream(gpu());
  for (const auto& resource : {cuda::make_device_resource(gpu()), cuda::make_pinned_resource(gpu())}) {
    for (std::size_t offset : {0, 3}) {
      const std::size_t bytes = (5 << 20) + 24;
      Buffer buffer = resource->allocate(bytes + 16, stream);
      buffer.fill(std::byte{0}, stream);
      Bytes model(bytes + 16);
      buffer.fill_pattern(0x0123456789abcdef, 8, offset, bytes, stream);
      expect(model, 0x0123456789abcdef, 8, offset, bytes);
      EXPECT_BYTES(test::read(buffer, stream), model) << "offset " << offset;
    }
  }
}

}  // namespace
}  // namespace weir::cuda_test
