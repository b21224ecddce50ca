// SPDX-License-Identifier: Apache-2.0
// Nothing is a size like any other.

#include <cstdint>

#include "expect.hpp"
#include "fixture.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

class ZeroSize : public OnMemory {};
WEIR_FOR_EACH_MEMORY(ZeroSize);

TEST_P(ZeroSize, HasNoAddressesButKnowsWhereItIsFrom) {
  const Buffer buffer = resource->allocate(0, stream);
  EXPECT_FALSE(buffer.is_closed());
  EXPECT_EQ(buffer.size(), 0U);
  EXPECT_EQ(buffer.host_data(), nullptr);
  EXPECT_EQ(buffer.device_address(), 0U);
  EXPECT_EQ(buffer.device(), device());
  EXPECT_EQ(buffer.kind(), info().kind);
  EXPECT_EQ(buffer.memory_resource(), resource);
  EXPECT_EQ(buffer.location().segment, nullptr);
}

TEST_P(ZeroSize, TakesNothingFromTheDriver) {
  const Buffer buffer = resource->allocate(0, stream, 2U << 20U);
  EXPECT_EQ(resource->stats().reserved, 0U);
  EXPECT_EQ(resource->stats().in_use, 0U);
}

TEST_P(ZeroSize, EveryOperationDoesNothing) {
  Buffer buffer = resource->allocate(0, stream);
  Buffer other = resource->allocate(0, stream);
  buffer.fill(std::uint8_t{7}, stream);
  buffer.fill(std::uint64_t{7}, 0, 0, stream);
  buffer.copy_to(other, stream);
  buffer.copy_from(other, stream);
  buffer.copy_from(other, 0, 0, 0, stream);
  buffer.copy_to(other, 0, 0, 0, stream);
  buffer.copy_from(std::span<const std::byte>{}, stream);
  buffer.copy_to(std::span<std::byte>{}, stream);
  buffer.use_on(stream);
  const Buffer copy = buffer.copy_to(stream);
  EXPECT_EQ(copy.size(), 0U);
  EXPECT_EQ(copy.memory_resource(), resource);
  stream.synchronize();
}

TEST_P(ZeroSize, LiesInItsBuffer) {
  const Buffer buffer = resource->allocate(64, stream);
  for (const std::size_t offset : {std::size_t{0}, std::size_t{63}, std::size_t{64}}) {
    const Tensor empty = buffer.view(f32, {0, 5}, offset);
    EXPECT_EQ(empty.layout().byte_offset, offset);
    EXPECT_EQ(empty.slice(1, {2, {}}).layout().byte_offset, offset);
    EXPECT_EQ(empty.copy_to(stream).layout().elements(), 0);
    EXPECT_EQ(empty.empty_like(resource, stream).layout().elements(), 0);
  }
  for (const std::size_t offset : {std::size_t{65}, std::size_t{1} << 62U, ~std::size_t{0}})
    EXPECT_ERROR((buffer.view(f32, {0, 5}, offset)), Errc::invalid_argument, "lies outside of a buffer of 64");
  EXPECT_EQ(buffer.view(f32, {4, 4}).slice(0, {4, {}}).slice(1, {4, {}}).layout().elements(), 0);
}

TEST_P(ZeroSize, CanBeSharedSlicedViewedAndClosed) {
  Buffer buffer = resource->allocate(0, stream);
  Buffer share = buffer.share();
  const Buffer slice = buffer.slice(0, 0);
  buffer.close();
  EXPECT_TRUE(buffer.is_closed());
  EXPECT_EQ(share.memory_resource(), resource);
  EXPECT_EQ(slice.size(), 0U);
  const Tensor tensor = share.view(f32, {0, 3});
  EXPECT_EQ(tensor.layout().elements(), 0);
  share.close(stream);
  EXPECT_ERROR(share.size() == 0 ? share.device() : device(), Errc::closed, "");
}

TEST_P(ZeroSize, EmptyRangesOfARealBuffer) {
  const Bytes expected = pattern(100, 1);
  Buffer buffer = filled(expected);
  Buffer other = filled(repeat(100, 0xee));
  buffer.fill(std::uint32_t{1}, 100, 0, stream);
  buffer.copy_from(other, 100, 100, 0, stream);
  buffer.copy_from(buffer, 50, 50, 0, stream);
  buffer.copy_from(std::span<const std::byte>{}, stream, 100);
  EXPECT_EQ(buffer.slice(100, 0).size(), 0U);
  EXPECT_EQ(buffer.slice(100, 0).host_data(), nullptr);
  EXPECT_EQ(buffer.slice(100, 0).device_address(), 0U);
  EXPECT_BYTES(read(buffer, stream), expected);
}

TEST_P(ZeroSize, RangesOutsideAreStillRefused) {
  Buffer buffer = resource->allocate(0, stream);
  Buffer one = resource->allocate(1, stream);
  EXPECT_ERROR(buffer.slice(0, 1), Errc::invalid_argument, "1");
  EXPECT_ERROR(buffer.slice(1, 0), Errc::invalid_argument, "1");
  EXPECT_ERROR(buffer.copy_to(one, stream), Errc::invalid_argument, "equal");
  EXPECT_ERROR(buffer.fill(std::uint8_t{0}, 0, 1, stream), Errc::invalid_argument, "1");
}

TEST_P(ZeroSize, StillChecksTheStream) {
  Stream moved = stream;
  const Stream keeper = std::move(moved);
  EXPECT_ERROR(resource->allocate(0, moved), Errc::closed, "Stream");  // NOLINT(bugprone-use-after-move)
}

}  // namespace
}  // namespace weir::test
