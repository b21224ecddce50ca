// SPDX-License-Identifier: Apache-2.0
// Driver calls that fail, one after the other: nothing leaks (TearDown counts) and the message names the call.
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "app.hpp"
#include "expect.hpp"
#include "sink.hpp"
#include "vulkan/errors.hpp"
#include "weir/ipc.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::vulkan::test {

TEST(Errors, PortableConditions) {
  const std::pair<Errc, std::vector<VkResult>> conditions[] = {
      {Errc::out_of_memory,
       {VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_OUT_OF_DEVICE_MEMORY, VK_ERROR_OUT_OF_POOL_MEMORY,
        VK_ERROR_MEMORY_MAP_FAILED, VK_ERROR_TOO_MANY_OBJECTS}},
      {Errc::device_lost, {VK_ERROR_DEVICE_LOST}},
      {Errc::corrupt_descriptor, {VK_ERROR_INVALID_EXTERNAL_HANDLE}},
      {Errc::incompatible, {VK_ERROR_INCOMPATIBLE_DRIVER}},
      {Errc::unsupported,
       {VK_ERROR_LAYER_NOT_PRESENT, VK_ERROR_EXTENSION_NOT_PRESENT, VK_ERROR_FEATURE_NOT_PRESENT,
        VK_ERROR_FORMAT_NOT_SUPPORTED}},
      {Errc::permission_denied, {VK_ERROR_NOT_PERMITTED_EXT}},
      {Errc::timed_out, {VK_TIMEOUT}}};
  for (const auto& [condition, results] : conditions) {
    for (const VkResult result : results) {
      EXPECT_EQ(make_code(result), condition) << result_name(result);
      EXPECT_EQ(is_exhaustion(result), condition == Errc::out_of_memory) << result_name(result);
    }
  }
  EXPECT_NE(make_code(VK_ERROR_UNKNOWN), Errc::device_lost);
  EXPECT_STREQ(vulkan_category().name(), "vulkan");
}

class Failures : public OnApp {
 protected:
  static void next(const char* call, VkResult result) { calls().fail(call, result); }
};

TEST_F(Failures, ExhaustionOfEachCallIsOutOfMemory) {
  const Stream stream{device()};
  const auto resource = make_readback_resource(device(), {.exportable = true});
  for (const char* call : {"vkCreateBuffer", "vkAllocateMemory", "vkBindBufferMemory"}) {
    next(call, VK_ERROR_OUT_OF_DEVICE_MEMORY);
    EXPECT_OUT_OF_MEMORY(resource->allocate(64, stream), call);
    next(call, VK_ERROR_OUT_OF_HOST_MEMORY);
    EXPECT_FALSE(resource->try_allocate(64, stream)) << call;
  }
  next("vkMapMemory", VK_ERROR_MEMORY_MAP_FAILED);
  EXPECT_FALSE(resource->try_allocate(64, stream));
  EXPECT_TRUE(resource->try_allocate(64, stream));
}

TEST_F(Failures, OtherFailuresAreErrors) {
  const Stream stream{device()};
  const auto resource = make_device_resource(device());
  next("vkAllocateMemory", VK_ERROR_DEVICE_LOST);
  EXPECT_ERROR(resource->try_allocate(64, stream), Errc::device_lost,
               "vkAllocateMemory failed with VK_ERROR_DEVICE_LOST");
  next("vkCreateSemaphore", VK_ERROR_OUT_OF_HOST_MEMORY);
  EXPECT_ERROR(Stream{device()}, Errc::out_of_memory, "vkCreateSemaphore");
}

TEST_F(Failures, AnOperationThatCannotBeRecordedChangesNothing) {
  const Stream stream{device()};
  Buffer buffer = make_device_resource(device())->allocate(64, stream);
  for (const char* call :
       {"vkCreateCommandPool", "vkAllocateCommandBuffers", "vkResetCommandPool", "vkBeginCommandBuffer"}) {
    next(call, VK_ERROR_OUT_OF_HOST_MEMORY);
    EXPECT_ERROR(buffer.fill(std::byte{1}, stream), Errc::out_of_memory, call);
  }
  next("vkAllocateMemory", VK_ERROR_OUT_OF_DEVICE_MEMORY);
  EXPECT_OUT_OF_MEMORY(buffer.fill(std::byte{1}, 1, 2, stream), "scratch");
  const Stream other{device()};
  other.record().wait();
  stream.wait(other.record());
  buffer.fill(std::byte{1}, stream);
  stream.synchronize();
}

TEST_F(Failures, ARefusedSubmitEndsTheStreamAndSaysSoOnce) {
  {
    const Stream stream{device()};
    Buffer buffer = make_device_resource(device())->allocate(64, stream);
    buffer.fill(std::byte{1}, stream);
    next("vkQueueSubmit", VK_ERROR_DEVICE_LOST);
    EXPECT_ERROR(stream.synchronize(), Errc::device_lost, "vkQueueSubmit failed with VK_ERROR_DEVICE_LOST");
    EXPECT_ERROR(buffer.fill(std::byte{1}, stream), Errc::device_lost, "vkQueueSubmit");
    EXPECT_EQ(weir::test::take_reports().size(), 1u);
  }
  const Stream fresh{device()};  // only that stream is lost
  fresh.synchronize();
}

// Memory may have been given to the stream for when these waits are over.
TEST_F(Failures, ARefusedSubmitDropsNoWait) {
  const VkSemaphore late = app->make_timeline();
  {
    const Stream stream{device()};
    Buffer buffer = make_device_resource(device())->allocate(64, stream);
    vulkan::wait(stream, late, 1);
    buffer.fill(std::byte{1}, stream);
    next("vkQueueSubmit", VK_ERROR_OUT_OF_DEVICE_MEMORY);
    EXPECT_ERROR(stream.flush(), Errc::device_lost, "vkQueueSubmit");
    EXPECT_EQ(weir::test::take_reports().size(), 1u);
    app->submit(late, 0, late, 1);
    while (!stream.state().finished(stream.state().issued())) std::this_thread::yield();
    EXPECT_EQ(calls().waits(), 1) << "of the batch that says when the stream is over";
  }
  app->destroy(late);
}

TEST_F(Failures, AnEndThatCannotBeSubmittedIsReported) {
  const VkSemaphore never = app->make_timeline();
  {
    const Stream stream{device()};
    vulkan::wait(stream, never, 1);  // kept for a batch, which only the end of the stream submits
    next("vkQueueSubmit", VK_ERROR_OUT_OF_DEVICE_MEMORY);
  }
  const auto reports = weir::test::take_reports();
  ASSERT_EQ(reports.size(), 2u) << "the stream is lost, and its end was not told to the device";
  EXPECT_EQ(reports[0].where, "stream");
  EXPECT_EQ(reports[1].where, "end of a Vulkan stream");
  EXPECT_NE(reports[1].message.find("vkQueueSubmit"), std::string::npos) << reports[1].message;
  app->destroy(never);
}

TEST_F(Failures, ALostDeviceIsNoticedWhileWaiting) {
  const Stream stream{device()};
  Buffer buffer = make_device_resource(device())->allocate(64, stream);
  buffer.fill(std::byte{1}, stream);
  stream.flush();
  const Event event = stream.record();
  next("vkWaitSemaphores", VK_ERROR_DEVICE_LOST);
  next("vkGetSemaphoreCounterValue", VK_ERROR_DEVICE_LOST);
  EXPECT_EQ(event.wait(std::chrono::hours{1}), WaitStatus::lost);
  EXPECT_EQ(weir::test::take_reports().size(), 1u);
  app->wait_idle();  // it is not really lost
}

TEST_F(Failures, AWaitWithoutALimitOutlastsADriverThatGivesUp) {
  const Stream stream{device()};
  Buffer buffer = make_device_resource(device())->allocate(64, stream);
  buffer.fill(std::byte{1}, stream);
  stream.flush();
  next("vkWaitSemaphores", VK_TIMEOUT);
  EXPECT_EQ(stream.record().wait(std::chrono::nanoseconds{-1}), WaitStatus::ready);
}

TEST_F(Failures, ImportAndExport) {
  const Stream stream{device()};
  Buffer buffer = make_device_resource(device(), {.exportable = true})->allocate(64, stream);
  next("vkGetMemoryFdKHR", VK_ERROR_TOO_MANY_OBJECTS);
  EXPECT_ERROR(buffer.ipc_descriptor(stream), Errc::out_of_memory, "vkGetMemoryFdKHR");
}

}  // namespace weir::vulkan::test
