// SPDX-License-Identifier: Apache-2.0
// A Vulkan stream that ends hands over what was recorded; without memory for that it says so, and the device
// goes on.
#include <gtest/gtest.h>

#include "inject/allocations.hpp"
#include "inject/vulkan.hpp"
#include "loop.hpp"
#include "sink.hpp"
#include "weir/buffer.hpp"
#include "weir/spi/stream_state.hpp"
#include "weir/vulkan.hpp"

namespace weir::test {
namespace {

TEST(ToldOnVulkan, TheEndOfAStreamAlsoWithoutMemory) {
  ASSERT_TRUE(shim_chosen);
  for (const BackendInfo& backend : backends()) {
    if (backend.name == "vulkan" && backend.devices.empty()) GTEST_SKIP() << backend.unavailable_because;
  }
  const Device device = vulkan::device(0);
  FailingVulkan driver(device);
  driver.around(&Unharmed::begin, &Unharmed::end);  // the driver has memory
  FailingAllocations injector(device, &driver);
  const auto resource = make_resource(device);
  const Stream home(device);
  std::size_t told = 0;
  for (std::size_t nth = 1;; ++nth) {
    ASSERT_LT(nth, 100U);
    SCOPED_TRACE("allocation " + std::to_string(nth));
    Buffer buffer = resource->allocate(4096, home);
    auto ending = std::make_optional<Stream>(device);
    // Unknown to the buffer, which would keep the stream.
    ending->state().put(spi::FillOp{buffer.location(), 4096, 7, 1});
    injector.arm(nth, 0);
    ending.reset();
    const bool refused = injector.disarm().has_value();
    std::size_t ends = 0;
    for (const Reported& report : take_reports()) {
      EXPECT_NE(report.message.find("std::bad_alloc"), std::string::npos)
          << report.where << ": " << report.message;
      ends += report.where == "end of a Vulkan stream" ? 1 : 0;
    }
    EXPECT_LE(ends, refused ? 1U : 0U);
    told += ends;
    driver.settle();  // what was handed over is complete, on whichever queue
    buffer.fill(std::byte{1}, home);
    home.synchronize();
    if (!refused) break;
  }
  EXPECT_GE(told, 1U);
}

}  // namespace
}  // namespace weir::test
