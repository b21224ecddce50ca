// SPDX-License-Identifier: Apache-2.0
// Copies between the elements of two tensors, in any two memories, that lie in all ways.

#include <tuple>

#include "fixture.hpp"
#include "random_layouts.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

class RegionMatrix : public Excludable, public testing::WithParamInterface<std::tuple<Memory, Memory>> {
 protected:
  /// One stream of each device that could do the work.
  [[nodiscard]] std::vector<Stream> streams() const {
    std::vector<Device> chosen{host_device()};
    for (const Device& device : {from.device, to.device}) {
      if (std::ranges::find(chosen, device) == chosen.end()) chosen.push_back(device);
    }
    return {chosen.begin(), chosen.end()};
  }

  struct Side {
    Tensor tensor;
    Bytes model;
  };
  /// A tensor with bytes before, between and behind its elements, all of them random.
  [[nodiscard]] static Side side(const ResourcePtr& resource, const Layout& layout, const Stream& stream,
                                 std::uint32_t seed) {
    Bytes model = pattern(layout.bytes_needed() + 9, seed);
    Buffer buffer = resource->allocate(model.size(), stream);
    write(buffer, model, stream);
    return {Tensor(std::move(buffer), layout), std::move(model)};
  }

  void copy_and_compare(const Layout& target, const Layout& source, const Stream& stream, std::uint32_t seed) const {
    const Side src = side(source_resource, source, stream, seed);
    Side dst = side(target_resource, target, stream, seed + 1);
    if (seed % 2 == 0)
      src.tensor.copy_to(dst.tensor, stream);
    else
      dst.tensor.copy_from(src.tensor, stream);
    copy_elements(dst.model, target, src.model, source);
    ASSERT_BYTES(read(dst.tensor.buffer(), stream), dst.model) << "on " << stream.device().id() << ", round " << seed;
    ASSERT_BYTES(read(src.tensor.buffer(), stream), src.model) << "on " << stream.device().id() << ", round " << seed;
  }

  const Memory& from = std::get<0>(GetParam());
  const Memory& to = std::get<1>(GetParam());
  ResourcePtr source_resource = from.make();
  ResourcePtr target_resource = to.make();
};

struct PairName {
  template <class Info>
  std::string operator()(const Info& info) const {
    return std::get<0>(info.param).name() + "_to_" + std::get<1>(info.param).name();
  }
};
INSTANTIATE_TEST_SUITE_P(Every, RegionMatrix,
                         testing::Combine(testing::ValuesIn(few_memories()), testing::ValuesIn(few_memories())),
                         PairName());
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RegionMatrix);

TEST_P(RegionMatrix, LayoutsOfAllSorts) {
  RandomLayouts random(21);
  for (const Stream& stream : streams()) {
    for (std::uint32_t round = 0; round < 20; ++round) {
      const DType type = random.dtype();
      const auto shape = random.shape(4, 300);
      const Layout source = random.layout(type, shape, true), target = random.layout(type, shape, false);
      copy_and_compare(target, source, stream, 2 * round + round % 2);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(RegionMatrix, PaddedRowsAndBoxes) {
  const Stream stream(from.device);
  const Layout padded{f32, {200, 999}, {1024, 1}, 64}, dense = Layout::compact(f32, {200, 999});
  copy_and_compare(dense, padded, stream, 1);
  copy_and_compare(padded, dense, stream, 2);
  const Layout boxes{u8, {3, 20, 4001}, {20 * 5000, 5000, 1}, 0};
  copy_and_compare(boxes, {u8, {3, 20, 4001}, {20 * 4096 + 4096, 4096, 1}, 1}, stream, 3);
}

TEST_P(RegionMatrix, TransposedOnBothSides) {
  const Stream stream(host_device());
  const Layout rows = Layout::compact(i16, {130, 70}), turned = Layout::compact(i16, {70, 130}).transpose();
  copy_and_compare(rows, turned, stream, 6);
  copy_and_compare(turned, rows, stream, 7);
}

TEST_P(RegionMatrix, EachRowComesInItsTurn) {
  const Layout few{u8, {5, 64}, {100, 1}, 0}, many{u8, {40, 8}, {12, 1}, 0};
  for (const Layout& rows : {few, many}) {
    const auto bytes = static_cast<std::size_t>(rows.shape[1]), step = static_cast<std::size_t>(rows.strides[0]);
    for (const Stream& stream : streams()) {
      Side src = side(source_resource, rows, stream, 1), dst = side(target_resource, rows, stream, 2);
      stream.synchronize();
      const auto fill_row = [&](Side& side, std::size_t row, std::uint8_t value) {
        Buffer buffer = side.tensor.buffer().share();
        buffer.fill(value, row * step, bytes, stream);
        std::fill_n(side.model.begin() + static_cast<std::ptrdiff_t>(row * step), bytes, std::byte{value});
      };
      fill_row(src, 4, 1);
      fill_row(dst, 3, 2);
      src.tensor.copy_to(dst.tensor, stream);
      copy_elements(dst.model, rows, src.model, rows);
      fill_row(src, 2, 3);
      fill_row(dst, 1, 4);
      EXPECT_BYTES(read(src.tensor.buffer(), stream), src.model) << "on " << stream.device().id();
      EXPECT_BYTES(read(dst.tensor.buffer(), stream), dst.model) << "on " << stream.device().id();
    }
  }
}

class RegionsBetweenDevices : public RegionMatrix {};

/// A memory of each device with one of each other device.
std::vector<std::tuple<Memory, Memory>> pairs_of_devices() {
  std::vector<Memory> firsts;
  for (const Memory& memory : few_memories())
    if (firsts.empty() || firsts.back().device != memory.device) firsts.push_back(memory);
  std::vector<std::tuple<Memory, Memory>> pairs;
  for (const Memory& from : firsts) {
    for (const Memory& to : firsts)
      if (from.device != to.device) pairs.emplace_back(from, to);
  }
  return pairs;
}
INSTANTIATE_TEST_SUITE_P(Every, RegionsBetweenDevices, testing::ValuesIn(pairs_of_devices()), PairName());
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RegionsBetweenDevices);

TEST_P(RegionsBetweenDevices, LargerThanAPieceOfStagingMemory) {
  const Stream stream(to.device);
  const Layout wide{u8, {3, (3U << 20) + 5}, {(3U << 20) + 64, 1}, 3};
  copy_and_compare(Layout::compact(u8, wide.shape), wide, stream, 4);
}

class TensorCopies : public OnMemory {};
WEIR_FOR_EACH_MEMORY(TensorCopies);

TEST_P(TensorCopies, ANewTensorIsDense) {
  const Bytes content = pattern(6 * 5 * 4, 1);
  const Tensor turned = filled(content).view(f32, {6, 5}).transpose();
  const Tensor copy = turned.copy_to(stream);
  EXPECT_TRUE(copy.layout().is_compact());
  EXPECT_EQ(copy.layout().shape, (std::vector<std::int64_t>{5, 6}));
  EXPECT_EQ(copy.buffer().memory_resource(), turned.buffer().memory_resource());
  Bytes expected(content.size());
  copy_elements(expected, copy.layout(), content, turned.layout());
  EXPECT_BYTES(part(read(copy.buffer(), stream), 0, expected.size()), expected);
  EXPECT_EQ(filled({}).view(f32, {3, 0}).copy_to(stream).layout().shape, (std::vector<std::int64_t>{3, 0}));
}

TEST_P(TensorCopies, WithinOneTensor) {
  Bytes model = pattern(8 * 8, 2);
  const Tensor all = filled(model).view(u8, {8, 8});
  const Tensor even = all.slice(1, {0, {}, 2}), odd = all.slice(1, {1, {}, 2});
  even.copy_to(odd, stream);
  copy_elements(model, odd.layout(), model, even.layout());
  EXPECT_BYTES(part(read(all.buffer(), stream), 0, 64), model);
  EXPECT_ERROR(all.copy_to(all, stream), Errc::invalid_argument, "Tensor::copy_to: source and destination overlap");
  EXPECT_ERROR(all.slice(0, {1, {}}).copy_to(all.slice(0, {{}, -1}), stream), Errc::invalid_argument, "overlap");
  EXPECT_ERROR(all.transpose().copy_to(all, stream), Errc::invalid_argument, "overlap");
  EXPECT_BYTES(part(read(all.buffer(), stream), 0, 64), model);
}

TEST_P(TensorCopies, RefuseWhatDoesNotFit) {
  const Tensor a = filled(pattern(64, 3)).view(u8, {8, 8});
  const Tensor b = filled(pattern(64, 4)).view(u8, {8, 8});
  EXPECT_ERROR(a.copy_to(b.slice(0, {1, {}}), stream), Errc::invalid_argument,
               "Tensor::copy_to: the source is uint8 of shape (8, 8), the destination uint8 of shape (7, 8)");
  EXPECT_ERROR(a.copy_from(b.buffer().view(i8, {8, 8}), stream), Errc::invalid_argument,
               "Tensor::copy_from: the source is int8 of shape (8, 8), the destination uint8 of shape (8, 8)");
  const Tensor one_row(b.buffer().share(), {u8, {8, 8}, {0, 1}, 0});
  EXPECT_ERROR(a.copy_to(one_row, stream), Errc::invalid_argument,
               "elements of the destination share memory: its strides are (0, 1)");
  one_row.copy_to(a, stream);
  Bytes expected;
  for (int i = 0; i < 8; ++i) {
    const Bytes row = part(pattern(64, 4), 0, 8);
    expected.insert(expected.end(), row.begin(), row.end());
  }
  EXPECT_BYTES(part(read(a.buffer(), stream), 0, 64), expected);
  Tensor closed = b.share();
  closed.buffer().close();
  EXPECT_ERROR(a.copy_to(closed, stream), Errc::closed, "Tensor::copy_to: the buffer is closed");
  EXPECT_ERROR(closed.copy_to(a, stream), Errc::closed, "Tensor::copy_to: the buffer is closed");
  EXPECT_ERROR((void)closed.copy_to(stream), Errc::closed, "Tensor::copy_to: the buffer is closed");
}

}  // namespace
}  // namespace weir::test
