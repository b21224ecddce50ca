// SPDX-License-Identifier: Apache-2.0
// Buffers that an application made, on its own device.
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "app.hpp"
#include "expect.hpp"
#include "weir/spi/segment.hpp"

namespace weir::vulkan::test {

class Wrapping : public OnApp {};

TEST_F(Wrapping, WrapsABufferOfTheApplication) {
  VkDeviceMemory memory = VK_NULL_HANDLE;
  VkBuffer theirs = app->make_buffer(1000, memory);
  int released = 0;
  {
    const Stream stream{device()};
    Buffer buffer = wrap(
        device(), {theirs, 1000, memory, 0, nullptr}, [&] { ++released; }, stream);
    EXPECT_EQ(buffer.kind(), MemoryKind::external);
    EXPECT_EQ(buffer.host_data(), nullptr);
    const auto handles = native(buffer.slice(100, 10));
    EXPECT_EQ(handles.buffer, theirs);
    EXPECT_EQ(handles.memory, memory);
    EXPECT_EQ(handles.offset, 100u);
    EXPECT_EQ(handles.memory_offset, 100u);
    buffer.fill(std::byte{3}, 1, 998, stream);
    std::vector<std::byte> bytes(1000);
    buffer.copy_to(std::span(bytes), stream);
    stream.synchronize();
    EXPECT_EQ(bytes[1], std::byte{3});
    EXPECT_EQ(bytes[998], std::byte{3});
    buffer.close();
    make_device_resource(device())->trim(0);
    EXPECT_EQ(released, 1);
  }
  give_back();
  EXPECT_EQ(released, 1);
  app->destroy_buffer(theirs, memory);
}

TEST_F(Wrapping, ARefusedWrapReleasesNothing) {
  VkDeviceMemory memory = VK_NULL_HANDLE;
  VkBuffer theirs = app->make_buffer(1000, memory);
  bool released = false;
  Stream stream{device()};
  const Stream moved = std::move(stream);
  const auto wrap_on = [&](const Stream& on) {
    return wrap(
        device(), {theirs, 1000, memory, 0, nullptr}, [&] { released = true; }, on);
  };
  EXPECT_ERROR(wrap_on(stream), Errc::closed, "moved from");  // NOLINT(bugprone-use-after-move)
  EXPECT_FALSE(released) << "it is still the caller's";
  app->destroy_buffer(theirs, memory);
}

TEST_F(Wrapping, WrappedMemoryThatIsMappedIsOfTheHost) {
  std::vector<std::byte> mapped(1000);
  VkDeviceMemory memory = VK_NULL_HANDLE;
  VkBuffer theirs = app->make_buffer(1000, memory);
  {
    const Stream stream{device()};
    const auto type_of = [&](void* host) {
      const Buffer buffer = wrap(device(), {theirs, 1000, memory, 0, host}, {}, stream);
      return buffer.location().segment->dlpack_device;
    };
    constexpr int cpu = 1;
    EXPECT_NE(type_of(nullptr), cpu);
    EXPECT_EQ(type_of(mapped.data()), cpu);
  }
  app->destroy_buffer(theirs, memory);
}

}  // namespace weir::vulkan::test
