// SPDX-License-Identifier: Apache-2.0
// A copy that the driver refuses may have begun, because some take the driver several calls.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "copy/staging.hpp"
#include "expect.hpp"
#include "stream/fake_stream.hpp"
#include "threads.hpp"
#include "weir/buffer.hpp"
#include "weir/host.hpp"
#include "weir/memory_resource.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/block.hpp"
#include "weir/spi/resources.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

class RefusedCopies : public testing::Test {
 protected:
  ~RefusedCopies() override { fake->finish(fake->issued()); }

  void expect_used_up_to(const Buffer& buffer, std::uint64_t value) const {
    const auto uses = buffer.block()->uses();
    const auto use = std::ranges::find(uses, fake, [](const spi::Point& point) { return point.stream.get(); });
    ASSERT_NE(use, uses.end());
    EXPECT_EQ(use->value, value);
  }

  FakeStream* const fake = new FakeStream;
  const Stream stream{spi::Ref<spi::StreamState>::adopt(fake)};
  const Stream home{host_device()};
  Buffer a = host::make_pageable_resource()->allocate(64, home), b = host::make_pageable_resource()->allocate(64, home);
};

TEST_F(RefusedCopies, CountAsUses) {
  fake->refuse_next();
  EXPECT_ERROR(a.copy_to(b, stream), Errc::unsupported, "refused by hand");
  expect_used_up_to(a, 1);
  expect_used_up_to(b, 1);
  fake->refuse_next();
  EXPECT_ERROR(a.view(u8, {8, 8}).transpose().copy_to(b.view(u8, {8, 8}), stream), Errc::unsupported,
               "refused by hand");
  expect_used_up_to(a, 2);
  expect_used_up_to(b, 2);
}

TEST_F(RefusedCopies, OfFillsToo) {
  fake->refuse_next();
  EXPECT_ERROR(a.fill(std::uint64_t{1}, stream), Errc::unsupported, "refused by hand");
  expect_used_up_to(a, 1);
}

/// Memory of a device that is only a table. No other device reaches it, so streams of others need a helper.
class RefusedOnAHelper : public testing::Test {
 protected:
  struct Remote final : spi::Segment {
    Remote(spi::DeviceState& of, std::size_t bytes) {
      device = &of;
      kind = MemoryKind::device;
      size = bytes;
    }
  };

  RefusedOnAHelper() {
    user->behaviour.waits_natively = true;
    buffer = spi::make_adopted_buffer(spi::Ref<spi::Segment>::adopt(new Remote(device(), 64)), 0, 64, home);
    detail::recycle_helper(Stream(spi::Ref<spi::StreamState>::retain(helper)));
  }
  ~RefusedOnAHelper() override {
    helper->finish(helper->issued());
    user->finish(user->issued());
    buffer.close();
    detail::forget_staging(device());
  }

  static bool reaches(const spi::DeviceState& device, const spi::Segment& segment) noexcept {
    return segment.device == &device;
  }
  static spi::DeviceState& device() {
    static constexpr spi::SegmentOps segments{.reserve = nullptr};
    static constexpr spi::StreamOps streams{.create = nullptr, .reaches = reaches};
    static constexpr spi::Backend backend{
        .name = "table", .devices = nullptr, .segments = &segments, .streams = &streams, .survives_fork = true};
    static spi::DeviceState& only = *[] {
      auto* const made = new spi::DeviceState;
      made->backend = &backend;
      made->kinds = {{.kind = MemoryKind::device, .device_accessible = true, .alignment = 256}};
      made->default_kind = MemoryKind::device;
      return made;
    }();
    return only;
  }
  /// Two fills, one for each row.
  void fill_rows() const { buffer.view(u8, {2, 8}, 0).slice(1, {.begin = 0, .end = 4}).fill(std::uint8_t{1}, stream); }
  static bool has(const std::vector<std::string>& log, const std::string& line) {
    return std::ranges::find(log, line) != log.end();
  }

  FakeStream* const user = new FakeStream;
  FakeStream* const helper = new FakeStream(device());
  const Stream stream{spi::Ref<spi::StreamState>::adopt(user)}, helping{spi::Ref<spi::StreamState>::adopt(helper)};
  const Stream home{host_device()};
  Buffer buffer;
};

TEST_F(RefusedOnAHelper, WhatIsThereComesBeforeLaterWorkOfTheStream) {
  helper->refuse_next(1);
  EXPECT_ERROR(fill_rows(), Errc::unsupported, "refused by hand");
  EXPECT_TRUE(has(helper->log(), "fill 1"));
  EXPECT_FALSE(has(helper->log(), "fill 2"));
  EXPECT_EQ(user->log(), (std::vector<std::string>{"wait 3"})) << "a fill, the refused one, and a mark";
}

TEST_F(RefusedOnAHelper, WhatTheStreamCannotWaitForTheHostWaitsFor) {
  helper->refuse_next(1);
  helper->behaviour.on_mark = [&] { user->refuse_next(); };
  Thread device([&] {
    helper->await_lines(2);  // a fill and a mark
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
    helper->finish(helper->issued());
  });
  EXPECT_ERROR(fill_rows(), Errc::unsupported, "refused by hand");
  EXPECT_TRUE(helper->known_reached(1));
  device.join();
}

}  // namespace
}  // namespace weir::test
