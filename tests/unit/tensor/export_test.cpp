// SPDX-License-Identifier: Apache-2.0
// The memory of exports is used again, by tensors of other shapes and from other threads, and keeps nothing.

#include <dlpack/dlpack.h>
#include <gtest/gtest.h>

#include <vector>

#include "threads.hpp"
#include "weir/dlpack.hpp"
#include "weir/host.hpp"
#include "weir/pool.hpp"

namespace weir::test {
namespace {

class Exports : public testing::Test {
 protected:
  static std::vector<std::int64_t> list(const std::int64_t* values, std::int32_t count) {
    return {values, values + count};
  }
  void expect_like(const ManagedTensor& made, const Tensor& tensor) const {
    const DLTensor& out = made.get()->dl_tensor;
    EXPECT_EQ(list(out.shape, out.ndim), tensor.layout().shape);
    EXPECT_EQ(list(out.strides, out.ndim), tensor.layout().strides);
    EXPECT_EQ(out.byte_offset, 0U);
    EXPECT_EQ(made.get()->flags, 0U);
  }

  const Stream stream{host_device()};
  const ResourcePtr pool = make_pool(host::make_pageable_resource());
};

TEST_F(Exports, HaveTheShapesAndStridesOfTheirTensors) {
  const Buffer buffer = pool->allocate(4096, stream);
  const std::vector<Tensor> tensors = [&] {
    std::vector<Tensor> made;
    for (std::size_t dimensions : {2, 8, 0, 6, 7, 1, 3}) {
      std::vector<std::int64_t> shape(dimensions, 2);
      made.push_back(buffer.view(f32, shape));
      made.push_back(made.back().transpose());
    }
    return made;
  }();
  for (int round = 0; round < 3; ++round) {
    for (const Tensor& tensor : tensors) expect_like(tensor.to_dlpack(stream), tensor);
    std::vector<ManagedTensor> together;
    for (const Tensor& tensor : tensors) together.push_back(tensor.to_dlpack(stream));
    for (std::size_t i = 0; i < tensors.size(); ++i) expect_like(together[i], tensors[i]);
  }
}

TEST_F(Exports, ForgetThatTheyWereReadOnlyOrCopied) {
  const Tensor tensor = pool->allocate(64, stream).view(u8, {64});
  ManagedTensor read_only = tensor.to_dlpack(stream, {.read_only = true});
  EXPECT_NE(read_only.get()->flags & DLPACK_FLAG_BITMASK_READ_ONLY, 0U);
  read_only.get()->flags |= DLPACK_FLAG_BITMASK_IS_COPIED;
  read_only = ManagedTensor(nullptr);
  expect_like(tensor.to_dlpack(stream), tensor);
}

TEST_F(Exports, KeepTheMemoryUntilTheyAreDeletedAndNoLonger) {
  const auto live = [this] { return pool->stats().live_buffers; };
  for (int round = 0; round < 3; ++round) {
    std::vector<ManagedTensor> all;
    for (int i = 0; i < 200; ++i) all.push_back(pool->allocate(256, stream).view(u8, {256}).to_dlpack(stream));
    EXPECT_EQ(live(), 200U);
    all.clear();
    EXPECT_EQ(live(), 0U);
  }
}

TEST_F(Exports, GoToOtherThreads) {
  std::vector<ManagedTensor> all;
  for (int i = 0; i < 300; ++i) all.push_back(pool->allocate(256, stream).view(u8, {16, 16}).to_dlpack(stream));
  Thread other([&] {
    all.erase(all.begin() + 150, all.end());
    const Tensor mine = pool->allocate(64, stream).view(u8, {64});
    expect_like(mine.to_dlpack(stream), mine);
  });
  other.join();
  all.clear();
  EXPECT_EQ(pool->stats().live_buffers, 0U);
}

}  // namespace
}  // namespace weir::test
