// SPDX-License-Identifier: Apache-2.0
// What counts of memory that no resource of this process made: in use until its last owner ends, reserved until its
// last use is over.
#include "memory/foreign_resource.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "gate.hpp"
#include "weir/buffer.hpp"
#include "weir/callback_resource.hpp"
#include "weir/host.hpp"

namespace weir::test {
namespace {

class ForeignResources : public testing::Test {
 protected:
  /// Return a buffer over addresses that nobody reads or writes.
  [[nodiscard]] Buffer adopt(std::size_t bytes) const {
    return Buffer::from_handle(host_device(), std::uint64_t{1} << 20U, bytes, {}, stream);
  }

  const Stream stream{host_device()};
  const ResourcePtr external = adopt(1).memory_resource();
  const ResourceStats before = external->stats();
};

TEST_F(ForeignResources, IsInUseUntilItsLastOwnerEnds) {
  const std::size_t bytes = std::max(before.peak_in_use, before.peak_reserved) + 1000;  // more than all else
  Gate gate;
  gate.hold(stream);
  Buffer buffer = adopt(bytes);
  Buffer share = buffer.share();
  const auto expect = [&](std::size_t in_use) {
    const ResourceStats now = external->stats();
    EXPECT_EQ(now.in_use, before.in_use + in_use);
    EXPECT_EQ(now.peak_in_use, before.in_use + bytes);
    EXPECT_GE(now.reserved, bytes);
    EXPECT_GE(now.peak_reserved, now.reserved);
  };
  expect(bytes);
  buffer.close();
  expect(bytes);
  share.close();
  expect(0);
  gate.open();
  while (external->stats().reserved >= bytes) std::this_thread::yield();  // the watchdog ends it otherwise
  EXPECT_EQ(external->stats().peak_in_use, before.in_use + bytes);
  EXPECT_GE(external->stats().peak_reserved, bytes);
}

TEST_F(ForeignResources, OfFunctionsCountsAsWhatTheyGave) {
  alignas(1024) static std::array<std::byte, 4096> memory;
  const auto resource = make_callback_resource(
      host_device(), {.host_accessible = true,
                      .allocate = [](std::size_t, const Stream&) -> void* { return memory.data(); },
                      .deallocate = [](void*, std::size_t) {}});
  Buffer buffer = resource->allocate(1000, stream, 1024);
  EXPECT_EQ(external->stats().in_use, before.in_use + 1000 + 1024 - default_alignment);
  buffer.close();
  EXPECT_EQ(external->stats().in_use, before.in_use);
}

}  // namespace
}  // namespace weir::test
