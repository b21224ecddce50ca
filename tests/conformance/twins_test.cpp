// SPDX-License-Identifier: Apache-2.0
// Tensors like another one, in host memory or in that of any resource; and what arrays with padding are used for: set,
// get, and regions, none of which disturbs the padding.

#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

#include "fixture.hpp"
#include "random_layouts.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

using Extents = std::vector<std::int64_t>;

class HostTwins : public OnMemory {
 protected:
  /// An array of random bytes with padding, and its model.
  [[nodiscard]] Tensor padded(DType type, const Extents& shape, const Extents& padded_shape, std::uint32_t seed) {
    model = pattern(Layout::compact(type, padded_shape).bytes_needed(), seed);
    return {filled(model), Layout::padded(type, shape, padded_shape)};
  }

  Bytes model;
};
WEIR_FOR_EACH_MEMORY(HostTwins);

TEST_P(HostTwins, LieLikeTheTensorInHostMemory) {
  const Tensor tensor = padded(f32, {4, 5}, {6, 8}, 1);
  const Tensor twin = tensor.empty_like_host(stream);
  EXPECT_EQ(twin.layout().dtype, f32);
  EXPECT_EQ(twin.layout().shape, (Extents{4, 5}));
  EXPECT_EQ(twin.layout().strides, tensor.layout().strides);
  EXPECT_EQ(twin.layout().byte_offset, 0U);
  EXPECT_EQ(twin.buffer().size(), 4U * 8 * 4) << "the padding of the last row, too";
  EXPECT_TRUE(twin.buffer().is_host_accessible());
  EXPECT_EQ(twin.buffer().kind(), device().staging_kind());
  EXPECT_EQ(twin.buffer().device(), device());
  EXPECT_EQ(tensor.transpose().empty_like_host(stream).layout().strides, (Extents{4, 1})) << "without gaps";
  EXPECT_EQ(filled({}).view(f32, {0, 3}).empty_like_host(stream).layout().shape, (Extents{0, 3}));
}

TEST_P(HostTwins, AreOfAnyResource) {
  const Tensor tensor = padded(i16, {3, 5}, {3, 9}, 2);
  const Tensor twin = tensor.empty_like(resource, stream);
  EXPECT_EQ(twin.buffer().memory_resource(), resource);
  EXPECT_EQ(twin.layout().padded_shape(), (Extents{3, 9}));
  tensor.copy_to(twin, stream);
  Bytes expected(twin.buffer().size());
  twin.zero(stream, {.over_gaps = true});
  tensor.copy_to(twin, stream);
  copy_elements(expected, twin.layout(), model, tensor.layout());
  const std::size_t seen = twin.layout().bytes_needed();
  EXPECT_BYTES(part(read(twin.buffer(), stream), 0, seen), part(expected, 0, seen));
  EXPECT_ERROR(tensor.empty_like(nullptr, stream), Errc::invalid_argument, "the resource is null");
}

TEST_P(HostTwins, BelieveNoStrideThatNothingTakes) {
  const Buffer buffer = filled(pattern(4096, 3));
  constexpr std::int64_t far = std::numeric_limits<std::int64_t>::max();
  const auto twin = [&](Extents shape, Extents strides) {
    return Tensor(buffer.share(), {f32, std::move(shape), std::move(strides), 0}).empty_like(resource, stream);
  };
  const auto expect = [](const Tensor& made, const Extents& strides, std::size_t bytes) {
    EXPECT_EQ(made.layout().strides, strides);
    EXPECT_EQ(made.buffer().size(), bytes);
  };
  expect(twin({1, 4}, {far, 1}), {4, 1}, 16);
  expect(twin({1, 4}, {1'000'000, 1}), {4, 1}, 16);
  expect(twin({1, 1, 4}, {1'000'000, 1000, 1}), {4, 4, 1}, 16);
  expect(twin({1, 3, 4}, {1'000'000, 8, 1}), {24, 8, 1}, 96);
  expect(twin({1, 3, 4}, {far, 8, 1}), {24, 8, 1}, 96);
  expect(twin({3, 1, 4}, {8, 1000, 1}), {8, 8, 1}, 96);
  expect(twin({5, 0}, {far, 1}), {1, 1}, 0);
  expect(twin({0, 5}, {far, far}), {5, 1}, 0);
}

TEST_P(HostTwins, SetAndGet) {
  const Tensor tensor = padded(i32, {7, 5}, {9, 8}, 3);
  const Tensor there = tensor.empty_like_host(stream), back = tensor.empty_like_host(stream);
  for (std::int64_t row = 0; row < 7; ++row) {
    const auto numbers = there.at(0, row).span<std::int32_t>();
    std::iota(numbers.begin(), numbers.end(), static_cast<std::int32_t>(10 * row));
  }
  after_host_write(there.buffer());
  tensor.copy_from(there, stream);
  tensor.copy_to(back, stream);
  stream.synchronize();
  before_host_read(back.buffer());
  for (std::int64_t row = 0; row < 7; ++row) {
    for (std::int64_t column = 0; column < 5; ++column) {
      const auto value = static_cast<std::int32_t>(10 * row + column);
      EXPECT_EQ(back.at(0, row).span<const std::int32_t>()[static_cast<std::size_t>(column)], value);
      std::memcpy(model.data() + (8 * row + column) * 4, &value, sizeof value);
    }
  }
  EXPECT_BYTES(read(tensor.buffer(), stream), model) << "the padding is as it was";
}

TEST_P(HostTwins, RegionsBetweenDifferentPaddings) {
  const Tensor target = padded(u16, {6, 7, 8}, {6, 9, 11}, 4);
  Bytes expected = model;
  const Tensor source = padded(u16, {6, 7, 8}, {8, 7, 13}, 5);
  // Of 5 every second is three, as of 6; indices leave dimensions out.
  const auto from = source.slice(0, {0, 5, 2}).at(1, 3).slice(1, {1, {}, 3});
  const auto to = target.slice(0, {1, {}, 2}).at(1, 6).slice(1, {0, 3});
  EXPECT_EQ(from.layout().shape, (Extents{3, 3}));
  from.copy_to(to, stream);
  copy_elements(expected, to.layout(), model, from.layout());
  EXPECT_BYTES(read(target.buffer(), stream), expected);
  source.copy_to(target, stream);
  copy_elements(expected, target.layout(), model, source.layout());
  EXPECT_BYTES(read(target.buffer(), stream), expected) << "the padding is as it was";
  target.zero(stream);
  for_each_element(target.layout(), [&](std::size_t at) { std::memset(expected.data() + at, 0, 2); });
  EXPECT_BYTES(read(target.buffer(), stream), expected) << "the padding is as it was";
}

TEST_P(HostTwins, OfClosedTensorsAreRefused) {
  Tensor tensor = padded(u8, {2, 2}, {2, 2}, 6);
  tensor.buffer().close();
  EXPECT_ERROR(tensor.empty_like_host(stream), Errc::closed, "Tensor::empty_like_host: the buffer is closed");
  EXPECT_ERROR(tensor.empty_like(resource, stream), Errc::closed, "Tensor::empty_like: the buffer is closed");
}

class StagingKinds : public OnDevice {};
WEIR_FOR_EACH_DEVICE(StagingKinds);

TEST_P(StagingKinds, AreForHostAndDevice) {
  const KindInfo* const info = device().find(device().staging_kind());
  ASSERT_NE(info, nullptr);
  EXPECT_TRUE(info->host_accessible);
  EXPECT_TRUE(info->device_accessible || device() == host_device());
  if (device().backend() == "cuda") {
    EXPECT_EQ(info->kind, MemoryKind::pinned);
  }
}

}  // namespace
}  // namespace weir::test
