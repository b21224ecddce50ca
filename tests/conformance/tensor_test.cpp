// SPDX-License-Identifier: Apache-2.0
// Tensors: parts and other shapes of them are in the same memory and own it, and the host sees the elements of memory
// that it reaches.

#include <cstdint>
#include <numeric>

#include "fixture.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

class Tensors : public OnMemory {
 protected:
  /// Elements that are 0, 1, 2, …
  [[nodiscard]] Tensor counted(std::int64_t rows, std::int64_t columns) const {
    std::vector<std::int32_t> numbers(static_cast<std::size_t>(rows * columns));
    std::iota(numbers.begin(), numbers.end(), 0);
    const auto bytes = std::as_bytes(std::span(numbers));
    return filled({bytes.begin(), bytes.end()}).view(i32, {rows, columns});
  }
  using Numbers = std::vector<std::int32_t>;
};
WEIR_FOR_EACH_MEMORY(Tensors);

TEST_P(Tensors, PartsAreInTheSameMemory) {
  const Tensor whole = counted(4, 6);
  const Tensor part = whole.slice(0, {1, {}, 2}).slice(1, {{}, {}, -1}).transpose();
  EXPECT_EQ(part.layout().shape, (std::vector<std::int64_t>{6, 2}));
  EXPECT_EQ(part.layout().strides, (std::vector<std::int64_t>{-1, 12}));
  EXPECT_EQ(part.layout().byte_offset, 11 * sizeof(std::int32_t));
  EXPECT_EQ(part.buffer().block(), whole.buffer().block());
  EXPECT_EQ(whole.reshape({3, -1}).layout().shape, (std::vector<std::int64_t>{3, 8}));
  EXPECT_EQ(whole.permute({1, 0}).layout().strides, (std::vector<std::int64_t>{1, 6}));
  EXPECT_EQ(whole.at(0, -1).layout().byte_offset, 18 * sizeof(std::int32_t));
}

TEST_P(Tensors, PartsOwnTheMemory) {
  Tensor whole = counted(4, 6);
  const auto before = resource->stats().live_buffers;
  {
    const Tensor row = whole.at(0, 2);
    whole.buffer().close();
    EXPECT_EQ(resource->stats().live_buffers, before);
    EXPECT_BYTES(part(read(row.buffer(), stream), row.layout().byte_offset, 1), Bytes{std::byte{12}});
  }
  EXPECT_EQ(resource->stats().live_buffers, before - 1);
  EXPECT_ERROR((void)whole.slice(0, {}), Errc::closed, "");
  EXPECT_ERROR((void)whole.span<std::int32_t>(), Errc::closed, "Tensor::span");
}

TEST_P(Tensors, TheHostSeesElementsOfMemoryThatItReaches) {
  const Tensor whole = counted(4, 6);
  EXPECT_ERROR((void)whole.span<float>(), Errc::invalid_argument, "float32 was asked for, and the elements are int32");
  EXPECT_ERROR((void)whole.transpose().span<std::int32_t>(), Errc::invalid_argument, "without gaps");
  EXPECT_TRUE(whole.slice(0, {2, 2}).span<std::int32_t>().empty());
  if (!info().host_accessible) {
    EXPECT_ERROR((void)whole.span<std::int32_t>(), Errc::unsupported, "copy it to the host");
    return;
  }
  stream.synchronize();
  before_host_read(whole.buffer());
  const std::span<const std::int32_t> row = whole.at(0, 2).span<const std::int32_t>();
  EXPECT_EQ(Numbers(row.begin(), row.end()), (Numbers{12, 13, 14, 15, 16, 17}));
  whole.span<std::int32_t>()[13] = -1;
  after_host_write(whole.buffer());
  std::int32_t number = 0;
  whole.buffer().copy_to(std::as_writable_bytes(std::span(&number, 1)), stream, 13 * sizeof number);
  stream.synchronize();
  EXPECT_EQ(number, -1);
  const Tensor shifted = whole.buffer().view(i32, {1}, 2);
  EXPECT_ERROR((void)shifted.span<std::int32_t>(), Errc::invalid_argument, "not aligned to 4 bytes");
}

}  // namespace
}  // namespace weir::test
