// SPDX-License-Identifier: Apache-2.0
// Fills of the elements of tensors that lie in all ways. What is beside the elements stays, unless it is asked for.

#include <complex>
#include <cstdint>

#include "fixture.hpp"
#include "random_layouts.hpp"
#include "weir/dlpack.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

class TensorFills : public OnMemory {
 protected:
  /// A tensor in random bytes, which `model` holds, too.
  [[nodiscard]] Tensor made(const Layout& layout, std::uint32_t seed) {
    model = pattern(layout.bytes_needed() + 9, seed);
    return {filled(model), layout};
  }
  void fill_model(const Layout& layout, std::span<const std::byte> element) {
    for_each_element(layout, [&](std::size_t at) { std::ranges::copy(element, model.begin() + std::ptrdiff_t(at)); });
  }

  Bytes model;
};
WEIR_FOR_EACH_MEMORY(TensorFills);

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

TEST_P(TensorFills, LayoutsOfAllSorts) {
  RandomLayouts random(41);
  for (const Device& by : devices()) {
    const Stream user(by);
    for (std::uint32_t round = 0; round < 16; ++round) {
      const DType type = random.dtype();
      const Layout layout = random.layout(type, random.shape(4, 300), true);
      const Tensor tensor = made(layout, round);
      Bytes element = pattern(type.bytes(), round + 100);
      if (round % 3 == 0) element = repeat(type.bytes(), 7);
      tensor.fill_pattern(element, user);
      fill_model(layout, element);
      ASSERT_BYTES(read(tensor.buffer(), user), model) << "round " << round << " on " << user.device().id();
      tensor.zero(user);
      fill_model(layout, repeat(type.bytes(), 0));
      ASSERT_BYTES(read(tensor.buffer(), user), model) << "round " << round << " on " << user.device().id();
    }
  }
}

TEST_P(TensorFills, ValuesOfEveryType) {
  const auto check = [&](auto value, DType type) {
    const Layout layout = Layout::padded(type, {13, 5}, {13, 7}, 16);
    const Tensor tensor = made(layout, type.bits);
    tensor.fill(value, stream);
    fill_model(layout, bytes_of(value));
    EXPECT_BYTES(read(tensor.buffer(), stream), model) << type.to_string();
  };
  check(true, bool8);
  check(std::int8_t{-3}, i8);
  check(std::uint16_t{0x1234}, u16);
  check(1.5F, f32);
  check(std::int64_t{0x0102030405060708}, i64);
  check(std::complex<float>(1, -2), c64);
  check(std::complex<double>(3, -4), c128);
}

TEST_P(TensorFills, ManyShortRowsAndFewLongOnes) {
  for (const Layout& layout :
       {Layout::padded(f32, {3000, 3}, {3000, 4}), Layout::padded(f32, {3, 5000}, {3, 5003}),
        Layout::padded(u8, {7, 9, 11}, {8, 10, 13}, 1), Layout::compact(f32, {50, 60}).transpose(),
        Layout::compact(c128, {700, 2}).slice(1, {0, 1}), Layout::compact(c128, {1000})}) {
    const Tensor tensor = made(layout, 3);
    const Bytes element = pattern(layout.dtype.bytes(), 5);
    tensor.fill_pattern(element, stream);
    fill_model(layout, element);
    EXPECT_BYTES(read(tensor.buffer(), stream), model);
  }
}

TEST_P(TensorFills, OverTheGapsIsOneRange) {
  const Layout layout = Layout::padded(i32, {5, 3}, {5, 8}, 12);
  const Tensor tensor = made(layout, 4);
  tensor.fill(std::int32_t{77}, stream, {.over_gaps = true});
  for (std::size_t at = 12; at < layout.bytes_needed(); at += 4)
    std::ranges::copy(bytes_of(std::int32_t{77}), model.begin() + std::ptrdiff_t(at));
  EXPECT_BYTES(read(tensor.buffer(), stream), model);
  const Tensor backward = made(Layout{c128, {3, 4}, {-8, 2}, 256}, 5);
  backward.fill(std::complex<double>(1, 2), stream, {.over_gaps = true});
  for (std::size_t at = 0; at < backward.layout().bytes_needed(); at += 16)
    std::ranges::copy(bytes_of(std::complex<double>(1, 2)), model.begin() + std::ptrdiff_t(at));
  EXPECT_BYTES(read(backward.buffer(), stream), model);
  const Tensor again = made(Layout{u8, {4, 6}, {2, 1}, 3}, 6);
  again.zero(stream, {.over_gaps = true});
  std::fill_n(model.begin() + 3, 12, std::byte{0});
  EXPECT_BYTES(read(again.buffer(), stream), model) << "elements that share memory are one range all the same";
}

TEST_P(TensorFills, ComeInTheirTurn) {
  const Layout layout = Layout::padded(u16, {40, 9}, {40, 16});
  const Tensor tensor = made(layout, 7);
  tensor.fill(std::uint16_t{1}, stream);
  const Tensor copy = tensor.copy_to(stream);
  tensor.fill(std::uint16_t{2}, stream);
  tensor.at(0, 39).fill(std::uint16_t{3}, stream);
  fill_model(layout, bytes_of(std::uint16_t{2}));
  fill_model(layout.at(0, 39), bytes_of(std::uint16_t{3}));
  EXPECT_BYTES(read(tensor.buffer(), stream), model);
  model = repeat(copy.layout().bytes_needed(), 0);
  fill_model(copy.layout(), bytes_of(std::uint16_t{1}));
  EXPECT_BYTES(part(read(copy.buffer(), stream), 0, model.size()), model);
}

TEST_P(TensorFills, ClosedRightAfterwards) {
  Tensor tensor = made(Layout::padded(f32, {100, 3}, {100, 5}), 8);
  tensor.fill(1.0F, stream);
  tensor.buffer().close();
  EXPECT_ERROR(tensor.fill(1.0F, stream), Errc::closed, "Tensor::fill: the buffer is closed");
  EXPECT_ERROR(tensor.zero(stream), Errc::closed, "Tensor::fill: the buffer is closed");
  stream.synchronize();
}

TEST_P(TensorFills, OfNoElementsDoNothing) {
  const Tensor tensor = made(Layout{f32, {3, 0}, {1, 1}, 4}, 9);
  tensor.fill(1.0F, stream);
  tensor.zero(stream, {.over_gaps = true});
  EXPECT_BYTES(read(tensor.buffer(), stream), model);
  filled({}).view(f32, {0}).fill(1.0F, stream);
}

TEST_P(TensorFills, RefuseWhatDoesNotFit) {
  const Tensor tensor = made(Layout::compact(f32, {4, 4}), 10);
  EXPECT_ERROR(tensor.fill(1, stream), Errc::invalid_argument,
               "Tensor::fill: the value is int32, and the elements are float32");
  EXPECT_ERROR(tensor.fill_pattern(repeat(3, 1), stream), Errc::invalid_argument,
               "Tensor::fill: the value has 3 bytes, an element of float32 has 4");
  const Tensor steps(tensor.buffer().share(), Layout{f32, {2, 2}, {1, 1}, 0});
  EXPECT_ERROR(steps.fill(1.0F, stream), Errc::invalid_argument,
               "elements of the destination share memory: its strides are (1, 1)");
  EXPECT_BYTES(read(tensor.buffer(), stream), model);
}

}  // namespace
}  // namespace weir::test
