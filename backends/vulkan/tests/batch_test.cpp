// SPDX-License-Identifier: Apache-2.0
// How many driver calls operations become.
#include "app.hpp"

namespace weir::vulkan::test {

class Batches : public OnApp {};

TEST_F(Batches, SixtyFourCopiesAreOneSubmitWithoutInnerBarriers) {
  const Stream stream{device()};
  const auto resource = make_device_resource(device());
  Buffer source = resource->allocate(64 * 1024, stream);
  Buffer target = resource->allocate(64 * 1024, stream);
  source.fill(std::uint32_t{7}, stream);
  stream.synchronize();
  calls().clear();
  for (std::size_t i = 0; i < 64; ++i) target.copy_from(source, i * 1024, i * 1024, 1024, stream);
  EXPECT_EQ(calls()["vkQueueSubmit"], 1);
  EXPECT_EQ(calls()["vkCmdCopyBuffer"], 64);
  EXPECT_EQ(calls()["vkCmdPipelineBarrier"], 1);  // behind earlier batches
  stream.synchronize();
}

TEST_F(Batches, DependentOperationsGetABarrierEach) {
  const Stream stream{device()};
  const auto resource = make_device_resource(device());
  Buffer a = resource->allocate(4096, stream);
  Buffer b = resource->allocate(4096, stream);
  Buffer c = resource->allocate(4096, stream);
  calls().clear();
  a.fill(std::uint32_t{1}, stream);
  b.copy_from(a, stream);            // reads what was written
  c.copy_from(b, stream);            // again
  b.fill(std::uint32_t{2}, stream);  // overwrites what was read
  stream.flush();
  EXPECT_EQ(calls()["vkQueueSubmit"], 1);
  EXPECT_EQ(calls()["vkCmdPipelineBarrier"], 1 + 3);
  std::vector<std::byte> bytes(4096);
  c.copy_to(std::span(bytes), stream);
  stream.synchronize();
  EXPECT_EQ(bytes[0], std::byte{1});
}

TEST_F(Batches, NothingIsSubmittedBeforeSomebodyAsks) {
  const Stream stream{device()};
  const auto resource = make_device_resource(device());
  Buffer buffer = resource->allocate(4096, stream);
  calls().clear();
  buffer.fill(std::byte{1}, stream);
  const Event event = stream.record();
  EXPECT_EQ(calls()["vkQueueSubmit"], 0);
  (void)event.done();
  EXPECT_EQ(calls()["vkQueueSubmit"], 1);
  event.wait();
  EXPECT_EQ(calls()["vkQueueSubmit"], 1);
  stream.flush();
  stream.synchronize();
  EXPECT_LE(calls()["vkQueueSubmit"], 2);
}

TEST_F(Batches, LargeWorkStartsAtOnce) {
  const Stream stream{device()};
  const auto resource = make_device_resource(device());
  Buffer buffer = resource->allocate(std::size_t{16} << 20, stream);
  calls().clear();
  buffer.fill(std::byte{1}, stream);
  EXPECT_EQ(calls()["vkQueueSubmit"], 1);
}

// The pattern comes from scratch memory, of which a batch has 64 KiB. The first fill takes eight bytes of it.
TEST_F(Batches, AnotherBatchBeginsWhereTheScratchMemoryEnds) {
  const Stream stream{device()};
  constexpr std::size_t seed = 4096, fills = 16;
  Buffer buffer = make_device_resource(device())->allocate((fills + 1) * seed, stream);
  calls().clear();
  buffer.fill_pattern(1, 1, 1, 3, stream);
  for (std::uint64_t i = 1; i <= fills; ++i) buffer.fill_pattern(i << 32U, 8, i * seed, seed, stream);
  EXPECT_EQ(calls()["vkQueueSubmit"], 1);
  std::vector<std::uint64_t> words(buffer.size() / 8);
  buffer.copy_to(std::as_writable_bytes(std::span(words)), stream);
  stream.synchronize();
  for (std::uint64_t i = 1; i <= fills; ++i) EXPECT_EQ(words[i * seed / 8 + seed / 8 - 1], i << 32U);
}

TEST_F(Batches, CommandBuffersAreReused) {
  const Stream stream{device()};
  const auto resource = make_device_resource(device());
  Buffer buffer = resource->allocate(4096, stream);
  calls().clear();
  for (int i = 0; i < 100; ++i) {
    buffer.fill(std::byte{1}, stream);
    stream.synchronize();
  }
  EXPECT_LE(calls()["vkCreateCommandPool"], 2);
  EXPECT_GE(calls()["vkResetCommandPool"], 100);
}

TEST_F(Batches, AnAlignedFillIsOneCommand) {
  const Stream stream{device()};
  const auto resource = make_device_resource(device());
  Buffer buffer = resource->allocate(4096, stream);
  calls().clear();
  buffer.fill(std::uint16_t{0x1234}, 4, 4000, stream);
  buffer.fill(std::uint64_t{0x1234567812345678}, 0, 8, stream);
  EXPECT_EQ(calls()["vkCmdFillBuffer"], 2);
  EXPECT_EQ(calls()["vkCmdCopyBuffer"], 0);
  EXPECT_EQ(calls()["vkAllocateMemory"], 0);
}

TEST_F(Batches, ALargeEightByteFillDoubles) {
  const Stream stream{device()};
  const auto resource = make_device_resource(device());
  Buffer buffer = resource->allocate(std::size_t{1} << 20, stream);
  calls().clear();
  buffer.fill(std::uint64_t{0x0123456789abcdef}, stream);
  EXPECT_EQ(calls()["vkCmdFillBuffer"], 0);
  EXPECT_EQ(calls()["vkCmdCopyBuffer"], 1 + 8);  // 4 KiB, then doubled to 1 MiB
}

}  // namespace weir::vulkan::test
