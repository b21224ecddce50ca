// SPDX-License-Identifier: Apache-2.0
// More than there is: OutOfMemory with figures, nullopt from try_allocate, and everything goes on.

#include <cstdint>
#include <limits>

#include "fixture.hpp"

namespace weir::test {
namespace {

class Exhaustion : public OnMemory {
 protected:
  static constexpr std::size_t pebibyte = std::size_t{1} << 50U;
};
WEIR_FOR_EACH_MEMORY(Exhaustion);

TEST_P(Exhaustion, APebibyte) {
  const Buffer live = resource->allocate(1000, stream);
  const ResourceStats before = resource->stats();
  try {
    (void)resource->allocate(pebibyte, stream);
    FAIL() << "no machine has that much";
  } catch (const OutOfMemory& error) {
    const Shortage& shortage = error.shortage();
    EXPECT_EQ(shortage.requested, pebibyte);
    EXPECT_EQ(shortage.alignment, default_alignment);
    EXPECT_EQ(shortage.in_use, 1000U);
    EXPECT_EQ(shortage.reserved, before.reserved);
    EXPECT_EQ(shortage.resource, resource->name());
    EXPECT_EQ(shortage.device.rfind(device().id(), 0), 0U) << shortage.device;
    const std::string message = error.what();
    EXPECT_NE(message.find(resource->name()), std::string::npos) << message;
    EXPECT_NE(message.find(device().id()), std::string::npos) << message;
    EXPECT_NE(message.find("1 125 899 906 842 624"), std::string::npos) << message;
    if (!shortage.call.empty()) {
      EXPECT_TRUE(shortage.native) << message;
      EXPECT_EQ(shortage.native, Errc::out_of_memory) << message;
      EXPECT_NE(message.find(shortage.call), std::string::npos) << message;
    }
  }
  EXPECT_EQ(resource->stats().reserved, before.reserved);
  EXPECT_EQ(resource->stats().live_buffers, 1U);
  EXPECT_EQ(resource->stats().allocations, 1U);
}

TEST_P(Exhaustion, TryAllocateSaysNothing) {
  EXPECT_FALSE(resource->try_allocate(pebibyte, stream).has_value());
  EXPECT_FALSE(resource->try_allocate(pebibyte, stream, 4096).has_value());
  EXPECT_FALSE(resource->try_allocate(SIZE_MAX, stream).has_value());
  EXPECT_EQ(resource->stats().reserved, 0U);
}

TEST_P(Exhaustion, SizesThatOverflowNeverReachTheDriver) {
  constexpr std::size_t max = std::numeric_limits<std::size_t>::max();
  for (const std::size_t bytes : {max, max - 1, max - 255, max - 4095, max - (2U << 20U)}) {
    try {
      (void)resource->allocate(bytes, stream, 4096);
      ADD_FAILURE() << bytes;
    } catch (const OutOfMemory& error) {
      EXPECT_EQ(error.shortage().requested, bytes);
      EXPECT_EQ(error.shortage().alignment, 4096U);
      EXPECT_EQ(error.shortage().call, "") << error.what();
      EXPECT_EQ(error.shortage().resource, resource->name());
    }
  }
  EXPECT_EQ(resource->stats().allocations, 0U);
}

TEST_P(Exhaustion, SizesJustBelowOverflow) {
  for (unsigned bit = 51; bit < 64; ++bit) {
    const std::size_t bytes = std::size_t{1} << bit;
    EXPECT_OUT_OF_MEMORY(resource->allocate(bytes, stream), resource->name());
    EXPECT_OUT_OF_MEMORY(resource->allocate(bytes - 1, stream, 2U << 20U), resource->name());
  }
  EXPECT_EQ(resource->stats().reserved, 0U);
}

TEST_P(Exhaustion, IsABadAlloc) { EXPECT_THROW((void)resource->allocate(pebibyte, stream), std::bad_alloc); }

TEST_P(Exhaustion, WorkGoesOnAfterwards) {
  Buffer buffer = filled(pattern(5000, 1));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(resource->try_allocate(pebibyte, stream).has_value());
  Buffer twin = buffer.copy_to(stream);
  EXPECT_BYTES(read(twin, stream), pattern(5000, 1));
  stream.synchronize();
}

}  // namespace
}  // namespace weir::test
