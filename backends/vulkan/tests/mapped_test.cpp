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

TEST_F(Mapped, PartsAreFlushedAndInvalidatedWhereTheyAre) {
  constexpr std::size_t size = 2048, offset = 1024, bytes = 512;
  const Stream stream{device()};
  const Device of = device();
  for (const KindInfo& kind : of.kinds()) {
    if (!kind.host_accessible) continue;
    SCOPED_TRACE(to_string(kind.kind));
    Buffer buffer = make_resource(of, kind.kind)->allocate(size, stream);
    Buffer part = buffer.slice(offset, bytes);
    buffer.fill(std::byte{7}, stream);
    stream.synchronize();
    std::fill_n(part.host_data(), bytes, std::byte{1});
    flush(part);
    Buffer copy = make_device_resource(of)->allocate(size, stream);
    copy.copy_from(buffer, stream);
    std::vector<std::byte> found(size), expected(size, std::byte{7});
    std::fill_n(expected.begin() + offset, bytes, std::byte{1});
    copy.copy_to(std::span(found), stream);
    stream.synchronize();
    EXPECT_EQ(found, expected);
    part.fill(std::byte{9}, stream);
    stream.synchronize();
    invalidate(part);
    EXPECT_EQ(part.host_data()[0], std::byte{9});
    EXPECT_EQ(part.host_data()[bytes - 1], std::byte{9});
  }
}

}  // namespace weir::vulkan::test
