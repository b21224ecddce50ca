// SPDX-License-Identifier: Apache-2.0
// Mapped memory that the device and the host write side by side. Runs once more where it has to be flushed.
#include "app.hpp"

namespace weir::vulkan::test {

class Mapped : public OnVulkan {};

// A flush writes back whole atoms, and with them what the host has of its neighbours' bytes.
TEST_F(Mapped, NeighboursOfWhatTheHostWritesStay) {
  constexpr std::size_t size = 2048;
  const Stream stream{device()};
  const auto local = make_device_resource(device());
  for (const auto& resource : {make_upload_resource(device()), make_readback_resource(device())}) {
    Buffer buffer = resource->allocate(size, stream);
    for (const auto& [offset, bytes] : {std::pair<std::size_t, std::size_t>{300, 700}, {512, 100}, {100, 156}}) {
      const std::vector<std::byte> zeros(size), ones(bytes, std::byte{1});
      buffer.copy_from(std::span<const std::byte>(zeros), stream);
      buffer.fill(std::byte{7}, stream);
      stream.synchronize();  // then the host writes by itself, and nothing is staged
      buffer.copy_from(std::span<const std::byte>(ones), stream, offset);
      Buffer copy = local->allocate(size, stream);
      copy.copy_from(buffer, stream);
      std::vector<std::byte> found(size), expected(size, std::byte{7});
      std::copy(ones.begin(), ones.end(), expected.begin() + static_cast<std::ptrdiff_t>(offset));
      copy.copy_to(std::span(found), stream);
      stream.synchronize();
      EXPECT_EQ(found, expected) << bytes << " bytes at " << offset << " of " << resource->name();
    }
  }
}

}  // namespace weir::vulkan::test
