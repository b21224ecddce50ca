// SPDX-License-Identifier: Apache-2.0
// One memory under several names: what is ordered, and what overlaps, goes by memory.
#include "app.hpp"
#include "expect.hpp"
#include "weir/ipc.hpp"

namespace weir::vulkan::test {

class Aliases : public OnApp {
 protected:
  static constexpr std::size_t size = 4096;

  [[nodiscard]] Buffer local(const Stream& stream) const {
    Buffer buffer = make_device_resource(device())->allocate(size, stream);
    buffer.fill(std::byte{0}, stream);
    stream.synchronize();
    return buffer;
  }
  [[nodiscard]] static std::uint32_t first_word(const Buffer& buffer, const Stream& stream) {
    std::uint32_t word = 0;
    buffer.copy_to(std::as_writable_bytes(std::span(&word, 1)), stream);
    stream.synchronize();
    return word;
  }

  /// Writes by one name are read by the other, and the other way round, in one batch: each needs a barrier. The judge
  /// and the validation layer look on. Returns how many barriers there were.
  int take_turns(Buffer& one, Buffer& other) const {
    const Stream stream{device()};  // a new one: nothing is put on it by a worker, so calls come at once
    Buffer x = local(stream), y = local(stream);
    calls().clear();
    one.fill(std::uint32_t{1}, stream);
    x.copy_from(other, stream);
    one.fill(std::uint32_t{2}, stream);
    y.copy_from(other, stream);
    stream.flush();
    EXPECT_EQ(calls()["vkQueueSubmit"], 1);
    const int barriers = calls()["vkCmdPipelineBarrier"];
    EXPECT_GE(barriers, 1 + 3);
    EXPECT_EQ(first_word(x, stream), 1U);
    EXPECT_EQ(first_word(y, stream), 2U);
    return barriers;
  }
};

TEST_F(Aliases, OneBufferWrappedTwice) {
  VkDeviceMemory memory = VK_NULL_HANDLE;
  VkBuffer theirs = app->make_buffer(size, memory);
  {
    const Stream stream{device()};
    Buffer one = wrap(device(), {theirs, size, memory}, {}, stream);
    Buffer other = wrap(device(), {theirs, size, memory}, {}, stream);
    EXPECT_EQ(take_turns(one, other), 1 + 3);
    EXPECT_ERROR(one.copy_from(other, 0, 100, 1000, stream), Errc::invalid_argument, "overlap by 900 bytes");
    one.copy_from(other, 0, 1000, 1000, stream);
  }
  give_back();
  app->destroy_buffer(theirs, memory);
}

TEST_F(Aliases, TwoBuffersOverOneMemory) {
  VkDeviceMemory memory = VK_NULL_HANDLE;
  VkBuffer all = app->make_buffer(2 * size, memory);
  VkBuffer upper = app->make_buffer_in(memory, 1024, size);
  {
    const Stream stream{device()};
    Buffer one = wrap(device(), {all, 2 * size, memory, 0, nullptr}, {}, stream);
    Buffer other = wrap(device(), {upper, size, memory, 1024, nullptr}, {}, stream);
    Buffer same = one.slice(1024, size);
    take_turns(same, other);
    EXPECT_ERROR(one.copy_from(other, 0, 1024, 1, stream), Errc::invalid_argument, "overlap by 1 bytes");
    EXPECT_ERROR(one.copy_from(other, 0, 2023, 1000, stream), Errc::invalid_argument, "overlap by 1 bytes");
    EXPECT_ERROR(other.copy_to(one, 25, 0, 1000, stream), Errc::invalid_argument, "overlap by 1 bytes");
    const Stream fresh{device()};
    calls().clear();
    one.copy_from(other, 0, 2024, 1000, fresh);  // right behind it
    one.copy_from(other, 2000, 24, 1000, fresh);
    other.fill(std::byte{1}, 2000 + 1000, 24, fresh);  // beside all of these
    fresh.flush();
    EXPECT_EQ(calls()["vkCmdPipelineBarrier"], 1);
  }
  give_back();
  app->destroy_buffer(upper, VK_NULL_HANDLE);
  app->destroy_buffer(all, memory);
}

TEST_F(Aliases, OfMemoryThatNobodyNamed) {
  VkDeviceMemory memory = VK_NULL_HANDLE;
  VkBuffer all = app->make_buffer(size, memory);
  VkBuffer same = app->make_buffer_in(memory, 0, size);
  {
    const Stream stream{device()};
    Buffer one = wrap(device(), {all, size, nullptr, 0, nullptr}, {}, stream);
    Buffer other = wrap(device(), {same, size, nullptr, 0, nullptr}, {}, stream);
    take_turns(one, other);
  }
  give_back();
  app->destroy_buffer(same, VK_NULL_HANDLE);
  app->destroy_buffer(all, memory);
}

TEST_F(Aliases, OfWeirsOwnBuffers) {
  for (const bool exportable : {false, true}) {
    for (const bool named : {false, true}) {
      SCOPED_TRACE(std::string(exportable ? "exportable " : "plain ") + (named ? "named" : "by its VkBuffer alone"));
      const Stream stream{device()};
      Buffer own = make_device_resource(device(), {.exportable = exportable})->allocate(size, stream);
      const auto handles = native(own);
      Buffer wrapped = wrap(device(), {handles.buffer, size, named ? handles.memory : nullptr}, {}, stream);
      take_turns(own, wrapped);
      take_turns(wrapped, own);
      EXPECT_ERROR(own.copy_from(wrapped, 0, 100, 1000, stream), Errc::invalid_argument, "overlap by 900 bytes");
    }
  }
}

TEST_F(Aliases, OfMappedMemoryAreSeenByTheHost) {
  const Stream stream{device()};
  Buffer own = make_readback_resource(device())->allocate(size, stream);
  const auto handles = native(own);
  Buffer wrapped = wrap(device(), {handles.buffer, size}, {}, stream);
  for (std::uint8_t value = 1; value < 20; ++value) {
    wrapped.fill(value, stream);
    stream.synchronize();
    invalidate(own);
    EXPECT_EQ(own.host_data()[size - 1], std::byte{value});
  }
}

/// On weir's own device, where descriptors are opened.
class OwnAliases : public OnVulkan {};

TEST_F(OwnAliases, OfAnOpenedDescriptorHaveTheirNamesToo) {
  if (!device().find(MemoryKind::device)->exportable) GTEST_SKIP() << "this driver shares no memory";
  const Stream stream{device()};
  Buffer buffer = make_device_resource(device(), {.exportable = true})->allocate(4096, stream);
  Buffer opened = ipc::open(buffer.ipc_descriptor(stream), stream);
  const auto handles = native(opened);
  Buffer wrapped = wrap(device(), {handles.buffer, 4096, handles.memory}, {}, stream);
  Buffer copy = make_device_resource(device())->allocate(4096, stream);
  for (std::uint32_t i = 1; i < 10; ++i) {  // orders are the judge's to look at
    wrapped.fill(i, stream);
    copy.copy_from(buffer, stream);
    opened.fill(i + 100, stream);
    copy.copy_from(wrapped, 0, 0, 4, stream);
    buffer.fill(i + 200, stream);
    copy.copy_from(opened, 0, 4, 4, stream);
  }
  std::uint32_t words[3];
  copy.copy_to(std::as_writable_bytes(std::span(words)), stream);
  stream.synchronize();
  EXPECT_EQ(words[0], 109U);
  EXPECT_EQ(words[1], 209U);
  EXPECT_EQ(words[2], 9U);
  EXPECT_ERROR(buffer.copy_from(wrapped, 0, 100, 1000, stream), Errc::invalid_argument, "overlap by 900 bytes");
}

TEST_F(OwnAliases, AreAcquiredBehindWritesByAnotherName) {
  if (!device().find(MemoryKind::device)->exportable) GTEST_SKIP() << "this driver shares no memory";
  const Stream stream{device()};
  for (const bool reads_between : {false, true}) {
    Buffer buffer = make_device_resource(device(), {.exportable = true})->allocate(4096, stream);
    Buffer opened = ipc::open(buffer.ipc_descriptor(stream), stream);
    opened.copy_from(opened, 0, 1024, 64, stream);
    if (reads_between) opened.copy_from(opened, 1024, 2048, 64, stream);  // behind a barrier between copies
    buffer.fill(std::uint8_t{6}, 512, 64, stream);
    buffer.fill(std::uint8_t{7}, 1024, 64, stream);  // the judge asks behind what these bytes were acquired
    std::uint8_t last = 0;
    buffer.copy_to(std::as_writable_bytes(std::span(&last, 1)), stream, 1087);
    stream.synchronize();
    EXPECT_EQ(last, 7U);
  }
}

}  // namespace weir::vulkan::test
