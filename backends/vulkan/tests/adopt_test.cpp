// SPDX-License-Identifier: Apache-2.0
// Life on an application's device.
#include "app.hpp"
#include "expect.hpp"
#include "gate.hpp"

namespace weir::vulkan::test {

class Adoption : public OnApp {};

TEST_F(Adoption, WorksWithEveryKindAndTakesTheLock) {
  const Stream stream{device()};
  EXPECT_EQ(device().backend(), "vulkan");
  for (const KindInfo& info : device().kinds()) {
    const auto resource = make_resource(device(), info.kind);
    Buffer a = resource->allocate(5000, stream);
    a.fill(std::uint16_t{0xbeef}, stream);
    Buffer b = a.copy_to(stream);
    std::vector<std::uint16_t> words(2500);
    b.copy_to(std::as_writable_bytes(std::span(words)), stream);
    stream.synchronize();
    EXPECT_EQ(words.front(), 0xbeef) << to_string(info.kind);
    EXPECT_EQ(words.back(), 0xbeef) << to_string(info.kind);
  }
  EXPECT_GT(app->locks, 0);
  EXPECT_EQ(app->locks, calls()["vkQueueSubmit"]);
}

TEST_F(Adoption, ReleaseRefusesWhileBuffersLive) {
  const Stream stream{device()};
  Buffer buffer = make_device_resource(device())->allocate(64, stream);
  EXPECT_ERROR(vulkan::release(device()), Errc::invalid_argument, "1 buffers and 1 streams");
  buffer.fill(std::byte{1}, stream);  // nothing has changed
  stream.synchronize();
}

TEST_F(Adoption, ReleaseWaitsForPendingWork) {
  {
    const Stream stream{device()};
    const auto resource = make_device_resource(device());
    Buffer buffer = resource->allocate(std::size_t{32} << 20, stream);
    for (int i = 0; i < 20; ++i) buffer.fill(static_cast<std::uint8_t>(i), stream);
    std::vector<std::byte> bytes(buffer.size());
    buffer.copy_from(std::span<const std::byte>(bytes), stream);  // through staging memory
  }
  give_back();
}

TEST_F(Adoption, NothingWorksAfterRelease) {
  const Device kept = device();
  const auto resource = make_device_resource(kept);
  give_back();
  EXPECT_ERROR(Stream{kept}, Errc::closed, "vulkan::release");
  EXPECT_ERROR(vulkan::release(kept), Errc::closed, "vulkan::release");
  const Stream host{host_device()};
  EXPECT_ERROR(resource->allocate(64, host), Errc::closed, "vulkan::release");
}

TEST_F(Adoption, WrapsABufferOfTheApplication) {
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

TEST_F(Adoption, RefusesWhatIsIncomplete) {
  auto options = app->options();
  options.device = nullptr;
  EXPECT_ERROR(adopt(options), Errc::invalid_argument, "a handle is null");
  options = app->options();
  options.queues.clear();
  EXPECT_ERROR(adopt(options), Errc::invalid_argument, "no queue");
  options = app->options();
  options.queues[0].unlock = nullptr;
  EXPECT_ERROR(adopt(options), Errc::invalid_argument, "only one of lock and unlock");
  options = app->options();
  options.timeline_semaphore = false;
  EXPECT_ERROR(adopt(options), Errc::unsupported, "timelineSemaphore");
  options = app->options();
  options.get_instance_proc_addr = nullptr;
  EXPECT_ERROR(adopt(options), Errc::invalid_argument, "get_instance_proc_addr");
  EXPECT_ERROR(vulkan::release(host_device()), Errc::invalid_argument, "not a Vulkan device");
  EXPECT_ERROR(wrap(
                   device(), {}, [] {}, Stream{host_device()}),
               Errc::invalid_argument, "names no memory");
}

TEST_F(Adoption, WeirsOwnDeviceIsNotReleased) {
  EXPECT_ERROR(vulkan::release(vulkan::device(0)), Errc::invalid_argument, "was not adopted");
}

}  // namespace weir::vulkan::test
