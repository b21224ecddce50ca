// SPDX-License-Identifier: Apache-2.0
// The Vulkan driver refuses: each fallible call in each scenario fails once with each of its errors.
#include <gtest/gtest.h>

#include "inject/allocations.hpp"
#include "inject/system_calls.hpp"
#include "inject/vulkan.hpp"
#include "loop.hpp"
#include "stream/releases.hpp"
#include "weir/buffer.hpp"
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

constexpr Scenario native[] = {{"use_native_handles", &use_native_handles},
                               {"wrap_native_buffer", &wrap_native_buffer}};

INSTANTIATE_TEST_SUITE_P(Every, OnVulkan, testing::ValuesIn(scenarios()), ScenarioName());
INSTANTIATE_TEST_SUITE_P(Native, OnVulkan, testing::ValuesIn(native), ScenarioName());

}  // namespace
}  // namespace weir::test
