// SPDX-License-Identifier: Apache-2.0
// A warm pool calls Vulkan's driver for nothing, whatever function.
#include <gtest/gtest.h>

#include "hold.hpp"
#include "inject/vulkan.hpp"
#include "warm.hpp"
#include "weir/vulkan.hpp"

namespace weir::test {
namespace {

thread_local long calls = 0;
void count_call() { ++calls; }

class WarmOnVulkan : public testing::TestWithParam<WarmPath> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(shim_chosen);
    for (const BackendInfo& backend : backends()) {
      if (backend.name == "vulkan" && backend.devices.empty()) GTEST_SKIP() << backend.unavailable_because;
    }
  }

  /// Calls of the driver that `function` makes. Streams do earlier work on threads of their own meanwhile.
  template <class F>
  static long calls_of(FailingVulkan& driver, F function) {
    calls = 0;
    driver.around(&count_call, nullptr);
    function();
    driver.around(nullptr, nullptr);
    return calls;
  }
};

TEST_P(WarmOnVulkan, CallsNothing) {
  const Device device = vulkan::device(0);
  FailingVulkan driver(device);
  for (const KindInfo& kind : device.kinds()) {
    SCOPED_TRACE(to_string(kind.kind));
    WarmPool warm(make_resource(device, kind.kind), false);
    Buffer used = warm.pool->allocate(1000, warm.stream);
    warm_up(warm, GetParam());
    EXPECT_EQ(calls_of(driver, [&] { GetParam().run(warm); }), 0);
    Hold hold;
    for (Stream* stream : {&warm.stream, &warm.other}) stream->wait(hold.event());
    used.fill(std::byte{1}, warm.stream);
    EXPECT_EQ(calls_of(driver, [&] { GetParam().run(warm); }), 0) << "behind work that is held back";
    hold.open();
    for (Stream* stream : {&warm.stream, &warm.other}) stream->synchronize();
    used.fill(std::byte{2}, warm.stream);  // recorded, and not submitted
    EXPECT_EQ(calls_of(driver, [&] { GetParam().run(warm); }), 0) << "behind the device's work";
    EXPECT_GT(calls_of(driver, [&] { (void)warm.pool->allocate(std::size_t{100} << 20, warm.stream); }), 0)
        << "growth calls it, so that the above proves something";
    warm.other.synchronize();
  }
}

INSTANTIATE_TEST_SUITE_P(Every, WarmOnVulkan, testing::ValuesIn(warm_paths()), WarmPathName());

}  // namespace
}  // namespace weir::test
