// SPDX-License-Identifier: Apache-2.0
// Memory of functions that throw when it goes back. All else: conformance/callback_test.cpp.
#include "weir/callback_resource.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "expect.hpp"
#include "sink.hpp"
#include "weir/buffer.hpp"
#include "weir/host.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/device_state.hpp"

namespace weir::test {
namespace {

/// A device whose driver takes no addresses.
struct TakesNoAddresses final : spi::DeviceState {
  TakesNoAddresses() {
    table = *host_device().state().backend;
    operations = *table.segments;
    operations.wrap = [](spi::DeviceState&, std::uint64_t, std::size_t) -> spi::Segment* {
      throw Error(Errc::unsupported, "refused by hand");
    };
    table.name = "refusing";
    table.segments = &operations;
    backend = &table;
  }
  spi::SegmentOps operations;
  spi::Backend table;
};

class MemoryThatIsNotTakenBack : public testing::Test {
 protected:
  [[nodiscard]] static ResourcePtr make(const Device& device, std::size_t shift) {
    return make_callback_resource(
        device, {.host_accessible = true,
                 .allocate = [shift](std::size_t, const Stream&) -> void* { return memory.data() + shift; },
                 .deallocate = [](void*, std::size_t) { throw std::runtime_error("kept it"); }});
  }
  static void expect_report(const ResourcePtr& resource) {
    const auto reports = take_reports();
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_EQ(reports[0].where, "release of adopted memory");
    EXPECT_EQ(reports[0].message, "kept it");
    EXPECT_EQ(resource->stats().reserved, 0U);
  }

  alignas(default_alignment) static inline std::array<std::byte, 4096> memory{};
  const Stream stream{host_device()};
};

TEST_F(MemoryThatIsNotTakenBack, IsStillRefusedForItsAlignment) {
  const ResourcePtr resource = make(host_device(), 64);
  EXPECT_ERROR((void)resource->allocate(1000, stream), Errc::incompatible, "aligned");
  expect_report(resource);
}

TEST_F(MemoryThatIsNotTakenBack, IsStillRefusedByItsDriver) {
  const ResourcePtr resource = make(Device(*new TakesNoAddresses), 0);  // devices are never destroyed
  EXPECT_ERROR((void)resource->allocate(1000, stream), Errc::unsupported, "refused by hand");
  expect_report(resource);
}

}  // namespace
}  // namespace weir::test
