// SPDX-License-Identifier: Apache-2.0
// Who reaches the memory: what KindInfo promises is what addresses do.

#include <cstdlib>
#include <cstring>

#include "fixture.hpp"

namespace weir::test {
namespace {

class Accessibility : public OnMemory {};
WEIR_FOR_EACH_MEMORY(Accessibility);

TEST_P(Accessibility, MatchesTheKind) {
  const Buffer buffer = resource->allocate(100, stream);
  EXPECT_EQ(buffer.is_host_accessible(), info().host_accessible);
  EXPECT_EQ(buffer.is_device_accessible(), info().device_accessible);
  EXPECT_EQ(buffer.host_data() != nullptr, info().host_accessible);
  EXPECT_TRUE(info().host_accessible || info().device_accessible);
}

// The suites that run once more with staging forced would repeat the others if this did not hold: what the host does
// not reach, it copies through staging memory.
TEST_P(Accessibility, OfVulkanIsWhatTheEnvironmentForces) {
  if (device().backend() != "vulkan") return;
  const bool forced = std::getenv("WEIR_VULKAN_FORCE_STAGING") != nullptr;
  EXPECT_EQ(info().host_accessible, forced ? info().kind == MemoryKind::readback : info().kind != MemoryKind::device);
}

class HostAccess : public OnMemory {};
WEIR_FOR_EACH_HOST_ACCESSIBLE(HostAccess);

TEST_P(HostAccess, SeesWhatTheStreamWrote) {
  Buffer buffer = resource->allocate(5000, stream);
  buffer.fill(std::uint8_t{0x5a}, stream);
  stream.synchronize();
  before_host_read(buffer);
  EXPECT_BYTES(std::span(buffer.host_data(), 5000), repeat(5000, 0x5a));
}

TEST_P(HostAccess, ShowsTheStreamWhatItWrote) {
  const Bytes expected = pattern(5000, 2);
  Buffer buffer = resource->allocate(5000, stream);
  stream.synchronize();
  std::memcpy(buffer.host_data(), expected.data(), expected.size());
  after_host_write(buffer);
  const Buffer copy = buffer.copy_to(stream);
  EXPECT_BYTES(read(copy, stream), expected);
}

TEST_P(Accessibility, AddressesAreStableAndFollowSlices) {
  Buffer buffer = resource->allocate(1000, stream);
  const Buffer slice = buffer.slice(300, 100);
  if (buffer.host_data() != nullptr) {
    EXPECT_EQ(slice.host_data(), buffer.host_data() + 300);
  } else {
    EXPECT_EQ(slice.host_data(), nullptr);
  }
  if (buffer.device_address() != 0) {
    EXPECT_EQ(slice.device_address(), buffer.device_address() + 300);
  } else {
    EXPECT_EQ(slice.device_address(), 0U);
  }
  const auto address = buffer.device_address();
  std::byte* const host = buffer.host_data();
  const Buffer moved = std::move(buffer);
  EXPECT_EQ(moved.device_address(), address);
  EXPECT_EQ(moved.host_data(), host);
}

TEST_P(Accessibility, MemoryWithoutAHostAddressHasADeviceAddress) {
  const Buffer buffer = resource->allocate(1, stream);
  const bool only_vulkan = device().backend() == "vulkan";  // may lack buffer device addresses, has VkBuffers
  EXPECT_TRUE(buffer.host_data() != nullptr || buffer.device_address() != 0 || only_vulkan);
  EXPECT_TRUE(only_vulkan || !info().device_accessible || buffer.device_address() != 0);
}

}  // namespace
}  // namespace weir::test
