// SPDX-License-Identifier: Apache-2.0
// The Vulkan driver refuses: each fallible call in each scenario fails once with each of its errors.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <new>

#include "inject/allocations.hpp"
#include "inject/system_calls.hpp"
#include "inject/vulkan.hpp"
#include "loop.hpp"
#include "peers.hpp"
#include "sink.hpp"
#include "stream/releases.hpp"
#include "vulkan/device.hpp"
#include "vulkan/stream.hpp"
#include "vulkan/tests/interpose.hpp"
#include "weir/buffer.hpp"
#include "weir/spi/stream_state.hpp"
#include "weir/vulkan.hpp"

namespace weir::test {
namespace {

class OnVulkan : public testing::TestWithParam<Scenario> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(shim_chosen);
    for (const BackendInfo& backend : backends()) {
      if (backend.name == "vulkan" && backend.devices.empty()) GTEST_SKIP() << backend.unavailable_because;
    }
  }
};

TEST_P(OnVulkan, CallsOfTheDriver) {
  const Stage stage(vulkan::device(0));
  FailingVulkan injector(stage.device);
  fail_every_call(GetParam(), stage, injector);
}

TEST_P(OnVulkan, SystemCalls) {
  const Stage stage(vulkan::device(0));
  FailingVulkan driver(stage.device);
  FailingSystemCalls injector(stage.device, &driver);
  fail_every_call(GetParam(), stage, injector);
}

TEST_P(OnVulkan, Memory) {
  const Stage stage(vulkan::device(0));
  FailingVulkan driver(stage.device);
  FailingAllocations injector(stage.device, &driver);
  driver.around(&Unharmed::begin, &Unharmed::end);
  fail_every_call(GetParam(), stage, injector);
}

void use_native_handles(const Stage& stage) {
  const Stream stream(stage.device);
  Buffer buffer = stage.plain->allocate(4096, stream);
  buffer.fill(std::byte{1}, stream);
  const auto handles = vulkan::native(stream);
  vulkan::with_queue(stream, [](VkQueue_T* queue) { require(queue != nullptr, "queue"); });
  const Stream other(stage.device);
  vulkan::wait(other, handles.semaphore, handles.value);
  buffer.fill(std::byte{2}, other);
  other.synchronize();
  stream.synchronize();
}

void wrap_native_buffer(const Stage& stage) {
  const Stream stream(stage.device);
  const Buffer owner = stage.readable->allocate(4096, stream);
  const auto handles = vulkan::native(owner);
  static int released;
  released = 0;
  {
    Buffer wrapped = vulkan::wrap(
        stage.device, {handles.buffer, handles.size}, [] { ++released; }, stream);
    wrapped.fill(std::byte{1}, stream);
    wrapped.close();
  }
  stream.synchronize();
  detail::drain_releases(stage.device.state());  // the release may be the library's thread's
  require(released == 1, "release of a wrapped buffer");
  vulkan::invalidate(owner);
  require(owner.host_data()[0] == std::byte{1}, "bytes of a wrapped buffer");
  vulkan::flush(owner);
}

/// An application's own work, of which no call counts or fails. Made once, and kept.
class Application {
 public:
  static Application& on(const Device& device) {
    static Application& made = *new Application(device);
    return made;
  }

  [[nodiscard]] VkCommandBuffer_T* commands() const { return commands_; }
  [[nodiscard]] vulkan::SemaphorePoint next_point() const { return {semaphore_, value_ + 1}; }
  /// Submit the commands behind a point of a stream, and before `done`.
  void submit(VkQueue_T* queue, const vulkan::NativeStream& after, const vulkan::SemaphorePoint& done) {
    const Unharmed unharmed;
    VkTimelineSemaphoreSubmitInfo values{};
    values.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
    values.waitSemaphoreValueCount = values.signalSemaphoreValueCount = 1;
    values.pWaitSemaphoreValues = &after.value;
    values.pSignalSemaphoreValues = &done.value;
    const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    VkSubmitInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    info.pNext = &values;
    info.waitSemaphoreCount = info.signalSemaphoreCount = info.commandBufferCount = 1;
    info.pWaitSemaphores = &after.semaphore;
    info.pWaitDstStageMask = &stage;
    info.pCommandBuffers = &commands_;
    info.pSignalSemaphores = &done.semaphore;
    require(function<PFN_vkQueueSubmit>("vkQueueSubmit")(queue, 1, &info, VK_NULL_HANDLE) == VK_SUCCESS, "submission");
    value_ = done.value;
  }

 private:
  explicit Application(const Device& device) {
    const vulkan::NativeStream handles = vulkan::native(Stream(device));
    device_ = handles.device;
    // Of the library behind the one that fails, because that one may have queues of its own.
    const auto& instance = static_cast<const vulkan::PhysicalDevice&>(device.state()).instance;
    get_ = reinterpret_cast<PFN_vkGetDeviceProcAddr>(
        vulkan::interpose::next_loader("FAILING_VULKAN_REAL")(instance.handle, "vkGetDeviceProcAddr"));
    VkSemaphoreTypeCreateInfo type{};
    type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    const VkSemaphoreCreateInfo timeline{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &type, 0};
    function<PFN_vkCreateSemaphore>("vkCreateSemaphore")(device_, &timeline, nullptr, &semaphore_);
    VkCommandPoolCreateInfo pool_info{};
    pool_info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    pool_info.queueFamilyIndex = handles.family;
    VkCommandPool pool = VK_NULL_HANDLE;
    function<PFN_vkCreateCommandPool>("vkCreateCommandPool")(device_, &pool_info, nullptr, &pool);
    VkCommandBufferAllocateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    info.commandPool = pool;
    info.commandBufferCount = 1;
    VkCommandBufferBeginInfo begin{};
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    begin.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;  // a run that failed did not wait for it
    function<PFN_vkAllocateCommandBuffers>("vkAllocateCommandBuffers")(device_, &info, &commands_);
    function<PFN_vkBeginCommandBuffer>("vkBeginCommandBuffer")(commands_, &begin);
    function<PFN_vkEndCommandBuffer>("vkEndCommandBuffer")(commands_);
  }
  template <class F>
  [[nodiscard]] F function(const char* name) const {
    return reinterpret_cast<F>(get_(device_, name));
  }

  VkDevice device_;
  PFN_vkGetDeviceProcAddr get_;
  VkSemaphore semaphore_ = VK_NULL_HANDLE;
  std::uint64_t value_ = 0;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
};

void submit_native_commands(const Stage& stage) {
  Application& application = Application::on(stage.device);
  const Stream stream(stage.device);
  Buffer buffer = stage.readable->allocate(4096, stream);
  buffer.fill(std::byte{1}, stream);
  const Event done = vulkan::submit(stream, {application.commands()}, {buffer});
  buffer.fill(std::byte{2}, 0, 1, stream);
  stream.synchronize();
  require(done.done(), "point of a submission");
  vulkan::invalidate(buffer);
  require(buffer.host_data()[0] == std::byte{2} && buffer.host_data()[1] == std::byte{1}, "bytes around a submission");
}

void submit_native_commands_elsewhere(const Stage& stage) {
  Application& application = Application::on(stage.device);
  const Stream stream(stage.device);
  Buffer buffer = stage.readable->allocate(4096, stream);
  buffer.fill(std::byte{1}, stream);
  const vulkan::SemaphorePoint point = application.next_point();
  bool submitted = false;
  const auto submit = [&](const vulkan::NativeStream& handles) {
    vulkan::with_queue(stream, [&](VkQueue_T* queue) { application.submit(queue, handles, point); });
    submitted = true;
  };
  Event done;
  try {
    done = vulkan::submit_elsewhere(stream, point, std::ref(submit), {buffer});
  } catch (const std::bad_alloc&) {
    require(!submitted, "work that was submitted is in order without memory, too");
    throw;
  }
  buffer.fill(std::byte{2}, 0, 1, stream);
  stream.synchronize();
  require(done.done(), "point of a submission elsewhere");
  vulkan::invalidate(buffer);
  require(buffer.host_data()[0] == std::byte{2} && buffer.host_data()[1] == std::byte{1}, "bytes around a submission");
}

constexpr Scenario native[] = {{"use_native_handles", &use_native_handles},
                               {"wrap_native_buffer", &wrap_native_buffer},
                               {"submit_native_commands", &submit_native_commands},
                               {"submit_native_commands_elsewhere", &submit_native_commands_elsewhere}};

// Work of the application that is submitted cannot be called back, so room for the record of its uses comes first.
TEST(OnVulkanElsewhere, WorkThatIsSubmittedIsRecorded) {
  for (const BackendInfo& backend : backends()) {
    if (backend.name == "vulkan" && backend.devices.empty()) GTEST_SKIP() << backend.unavailable_because;
  }
  const Device device = vulkan::device(0);
  const Stream owner(device);
  const auto resource = make_resource(device);
  FailingVulkan driver(device);
  FailingAllocations injector(device, &driver);
  driver.around(&Unharmed::begin, &Unharmed::end);
  constexpr std::size_t most = 1000;
  bool refused = true;
  for (std::size_t nth = 1; refused && nth < most; ++nth) {
    const Stream stream(device);  // a refusal may be the end of it
    const Buffer buffer = resource->allocate(64, owner);
    const auto there = vulkan::native(owner);
    owner.synchronize();
    const vulkan::BufferList buffers{buffer};
    bool submitted = false;
    const std::function<void(const vulkan::NativeStream&)> submit = [&](const auto&) { submitted = true; };
    injector.arm(nth, 0);
    try {
      (void)vulkan::submit_elsewhere(stream, {there.semaphore, there.value}, submit, buffers);
    } catch (const std::exception& error) {
      EXPECT_TRUE(!submitted || stream.state().lost()) << "allocation " << nth << ": " << error.what();
    }
    refused = injector.disarm().has_value();
    (void)take_reports();
  }
  EXPECT_FALSE(refused) << "it never ends";
}

// The last operation of a batch also submits it. When there is no memory for that, the batch has the operation already,
// so it counts as accepted: one that is refused must not run later.
TEST(OnVulkanBatches, AnOperationThatIsRefusedDoesNotRunLater) {
  for (const BackendInfo& backend : backends()) {
    if (backend.name == "vulkan" && backend.devices.empty()) GTEST_SKIP() << backend.unavailable_because;
  }
  const Device device = vulkan::device(0);
  const auto resource = vulkan::make_readback_resource(device);
  FailingVulkan driver(device);
  FailingAllocations injector(device, &driver);
  driver.around(&Unharmed::begin, &Unharmed::end);
  constexpr std::size_t most = 1000;
  bool failed = true;
  std::size_t accepted = 0;
  for (std::size_t nth = 1; failed && nth < most; ++nth) {
    const Stream stream(device);  // a refusal may be the end of it
    Buffer buffer = resource->allocate(64, stream);
    for (std::size_t i = 1; i < vulkan::BatchedStream::max_operations; ++i) buffer.fill(std::byte{1}, stream);
    bool refused = false;
    injector.arm(nth, 0);
    try {
      buffer.fill(std::byte{2}, stream);
    } catch (const std::bad_alloc&) {
      refused = true;
    }
    failed = injector.disarm().has_value();
    (void)take_reports();
    if (stream.state().lost()) continue;
    stream.synchronize();
    vulkan::invalidate(buffer);
    EXPECT_EQ(buffer.host_data()[0], refused ? std::byte{1} : std::byte{2}) << "allocation " << nth;
    if (failed && !refused) ++accepted;
  }
  EXPECT_FALSE(failed) << "it never ends";
  EXPECT_GT(accepted, 0U) << "the memory for the batch was there each time";
}

INSTANTIATE_TEST_SUITE_P(Every, OnVulkan, testing::ValuesIn(scenarios()), ScenarioName());
INSTANTIATE_TEST_SUITE_P(Peers, OnVulkan, testing::ValuesIn(peers()), ScenarioName());
INSTANTIATE_TEST_SUITE_P(Paths, OnVulkan, testing::ValuesIn(peers_at_paths()), ScenarioName());
INSTANTIATE_TEST_SUITE_P(Native, OnVulkan, testing::ValuesIn(native), ScenarioName());

}  // namespace
}  // namespace weir::test
