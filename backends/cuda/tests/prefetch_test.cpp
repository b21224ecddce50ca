// SPDX-License-Identifier: Apache-2.0
// Where managed memory is after its allocation, and who refuses.

#include "bytes.hpp"
#include "expect.hpp"
#include "gate.hpp"
#include "native.hpp"
#include "weir/adaptors/prefetch.hpp"
#include "weir/host.hpp"
#include "weir/pool.hpp"

namespace weir::cuda_test {
namespace {

class Prefetches : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!gpu().find(MemoryKind::managed)) GTEST_SKIP() << "this device has no managed memory";
  }
  /// Where a buffer was moved last: an ordinal, CU_DEVICE_CPU, or CU_DEVICE_INVALID for nowhere.
  static int moved_to(const Buffer& buffer) {
    const Current current(primary());
    int place = -7;
    EXPECT_CU(api().MemRangeGetAttribute(&place, sizeof place, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION,
                                         cuda::pointer(buffer), buffer.size()));
    return place;
  }
  static constexpr std::size_t size = std::size_t{4} << 20;
};

TEST_F(Prefetches, MemoryIsWhereItWasSentOnceTheStreamIsThere) {
  const Stream stream(gpu());
  const auto managed = cuda::make_managed_resource(gpu());
  const Buffer plain = managed->allocate(size, stream);
  Buffer there = make_prefetch(managed)->allocate(size, stream);
  const Buffer here = make_prefetch(managed, host_device())->allocate(size, stream);
  stream.synchronize();
  EXPECT_EQ(moved_to(plain), CU_DEVICE_INVALID);
  EXPECT_EQ(moved_to(there), 0);
  EXPECT_EQ(moved_to(here), CU_DEVICE_CPU);
  test::write(there, test::pattern(size, 1), stream);
  EXPECT_BYTES(test::read(there, stream), test::pattern(size, 1));
  EXPECT_EQ(there.memory_resource()->name(), "prefetch(cuda.managed)");
  EXPECT_EQ(there.kind(), MemoryKind::managed);
}

TEST_F(Prefetches, OnStreamsOfOtherBackendsToo) {
  const auto prefetching = make_prefetch(cuda::make_managed_resource(gpu()));
  for (const Device& other : devices()) {
    const Stream stream(other);
    test::Gate gate;
    gate.hold(stream);
    const Buffer buffer = prefetching->allocate(size, stream);
    if (other.backend() != "cuda") {
      EXPECT_EQ(moved_to(buffer), CU_DEVICE_INVALID) << other.id() << ": the stream is not there";
    }
    gate.open();
    stream.synchronize();
    EXPECT_EQ(moved_to(buffer), 0) << other.id();
  }
}

TEST_F(Prefetches, OverAPoolEachBufferMoves) {
  const Stream stream(gpu());
  const auto prefetching = make_prefetch(make_pool(cuda::make_managed_resource(gpu())), host_device());
  const Buffer buffer = prefetching->allocate(size, stream);
  stream.synchronize();
  EXPECT_EQ(moved_to(buffer), CU_DEVICE_CPU);
}

TEST_F(Prefetches, WhatDoesNotMoveIsRefusedWhenItIsMade) {
  const auto device = cuda::make_device_resource(gpu());
  EXPECT_ERROR(make_prefetch(device), Errc::unsupported, "kind device of cuda:0");
  EXPECT_ERROR(make_prefetch(cuda::make_pinned_resource(gpu())), Errc::unsupported, "managed");
  EXPECT_ERROR(make_prefetch(host::make_pageable_resource()), Errc::unsupported, "kind pageable of host:0");
  for (const Device& other : devices()) {
    if (other.backend() != "vulkan") continue;
    EXPECT_ERROR(make_prefetch(cuda::make_managed_resource(gpu()), other), Errc::unsupported, other.id());
  }
  EXPECT_ERROR(make_prefetch(nullptr), Errc::invalid_argument, "upstream");
  EXPECT_ERROR(make_prefetch(nullptr, gpu()), Errc::invalid_argument, "upstream");
}

}  // namespace
}  // namespace weir::cuda_test
