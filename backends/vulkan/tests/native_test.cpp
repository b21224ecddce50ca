// SPDX-License-Identifier: Apache-2.0
// Handles and kinds.
#include <string>

#include "app.hpp"
#include "expect.hpp"
#include "vulkan/device.hpp"

namespace weir::vulkan::test {

class Native : public OnVulkan {};

TEST_F(Native, HandlesOfASlice) {
  const Stream stream{device()};
  Buffer buffer = make_device_resource(device())->allocate(1000, stream);
  const auto whole = native(buffer);
  EXPECT_NE(whole.buffer, nullptr);
  EXPECT_NE(whole.memory, nullptr);
  EXPECT_EQ(whole.size, 1000u);
  EXPECT_GE(whole.allocation_size, 1000u);
  EXPECT_EQ(whole.device_address, buffer.device_address());
  const auto part = native(buffer.slice(300, 50));
  EXPECT_EQ(part.buffer, whole.buffer);
  EXPECT_EQ(part.offset, whole.offset + 300);
  EXPECT_EQ(part.memory_offset, whole.memory_offset + 300);
  EXPECT_EQ(part.size, 50u);
  if (whole.device_address) {
    EXPECT_EQ(part.device_address, whole.device_address + 300);
  }
  EXPECT_EQ(native(make_device_resource(device())->allocate(0, stream)).buffer, nullptr);
}

TEST_F(Native, WrongOnesAreNamed) {
  const Stream host{host_device()};
  Buffer buffer = make_resource(host_device())->allocate(64, host);
  EXPECT_ERROR(native(buffer), Errc::invalid_argument, "host:0 is not a Vulkan device");
  EXPECT_ERROR(native(host), Errc::invalid_argument, "host:0 is not a Vulkan device");
  EXPECT_ERROR(make_device_resource(host_device()), Errc::invalid_argument, "host:0 is not a Vulkan device");
  Buffer closed;
  EXPECT_ERROR(native(closed), Errc::closed, "");
  const Stream stream{device()};
  Buffer local = make_device_resource(device())->allocate(64, stream);
  EXPECT_ERROR(flush(local), Errc::invalid_argument, "not host-accessible");
  EXPECT_ERROR(vulkan::wait(stream, nullptr, 1), Errc::invalid_argument, "the semaphore is null");
  EXPECT_ERROR(vulkan::device(99), Errc::invalid_argument, "vulkan:99");
}

TEST_F(Native, KindsHaveTheRightMemory) {
  const auto* state = static_cast<const PhysicalDevice*>(&device().state());
  const auto flags = [&](MemoryKind kind) { return state->type(*state->memory_type(kind, ~0u)).propertyFlags; };
  EXPECT_TRUE(flags(MemoryKind::device) & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
  EXPECT_TRUE(flags(MemoryKind::upload) & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
  EXPECT_TRUE(flags(MemoryKind::readback) & VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
  EXPECT_EQ(device().default_kind(), MemoryKind::device);
  const Stream stream{device()};
  const Device of = device();
  for (const KindInfo& info : of.kinds()) {
    Buffer buffer = make_resource(device(), info.kind)->allocate(1, stream);
    EXPECT_EQ(buffer.host_data() != nullptr, info.kind != MemoryKind::device) << to_string(info.kind);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.host_data()) % default_alignment, 0u) << to_string(info.kind);
    EXPECT_EQ(buffer.device_address() % default_alignment, 0u) << to_string(info.kind);
    if (buffer.host_data()) {
      flush(buffer);
      invalidate(buffer);
    }
  }
}

// Processes compare it before one of them opens memory of the other: two builds of a driver are two drivers.
TEST_F(Native, TheDriverIsKnownByNameBuildAndVersion) {
  const auto& state = static_cast<const PhysicalDevice&>(device().state());
  VkPhysicalDeviceDriverProperties driver{};
  driver.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES;
  VkPhysicalDeviceProperties2 all{};
  all.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  all.pNext = &driver;
  state.instance.fn.vkGetPhysicalDeviceProperties2(state.handle, &all);
  const auto version = all.properties.apiVersion;
  const std::string api = std::to_string(VK_API_VERSION_MAJOR(version)) + '.' +
                          std::to_string(VK_API_VERSION_MINOR(version)) + '.' +
                          std::to_string(VK_API_VERSION_PATCH(version));
  EXPECT_NE(state.driver.find(driver.driverName), std::string::npos) << state.driver;
  EXPECT_NE(state.driver.find(driver.driverInfo), std::string::npos) << state.driver;
  EXPECT_NE(state.driver.find(api), std::string::npos) << state.driver;
}

TEST_F(Native, StreamsAreSpreadOverQueues) {
  const auto* state = static_cast<const PhysicalDevice*>(&device().state());
  const Stream a{device()}, b{device()};
  EXPECT_EQ(native(a).queue == native(b).queue, state->queue_count == 1);
  EXPECT_NE(native(a).semaphore, native(b).semaphore);
}

}  // namespace weir::vulkan::test
