// SPDX-License-Identifier: Apache-2.0
// The modelled driver's memory pools: what they keep, what the host must have seen, and what that takes from others.
#include <thread>
#include <utility>

#include "model.hpp"
#include "settle.hpp"

namespace weir::cuda_test {
namespace {

class ModelledPools : public Model {
 protected:
  void SetUp() override {
    Model::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    test::await_releases();  // of earlier tests, which would be counted here
    CUmemPoolProps properties{};
    ASSERT_CU(MODEL(cuMemPoolCreate)(&pool_, &properties));
    keep(~cuuint64_t{0});
  }
  void TearDown() override {
    if (pool_) {
      EXPECT_CU(MODEL(cuMemPoolDestroy)(pool_));
    }
    Model::TearDown();
  }
  void keep(cuuint64_t threshold) const {
    EXPECT_CU(MODEL(cuMemPoolSetAttribute)(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  }
  [[nodiscard]] cuuint64_t reserved() const {
    cuuint64_t held = 0;
    EXPECT_CU(MODEL(cuMemPoolGetAttribute)(pool_, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &held));
    return held;
  }
  static std::size_t free_bytes() {
    std::size_t free = 0, total = 0;
    EXPECT_CU(MODEL(cuMemGetInfo)(&free, &total));
    return free;
  }
  [[nodiscard]] CUdeviceptr take(std::size_t count) const {
    CUdeviceptr at = 0;
    EXPECT_CU(MODEL(cuMemAllocFromPoolAsync)(&at, count, pool_, stream_));
    return at;
  }

  static constexpr std::size_t mib = std::size_t{1} << 20U;
  CUmemoryPool pool_ = nullptr;
};

TEST_F(ModelledPools, KeepWhatIsFreedFromOthers) {
  const auto before = free_bytes();
  const CUdeviceptr at = take(8 * mib);
  EXPECT_EQ(free_bytes(), before - 8 * mib);
  ASSERT_CU(MODEL(cuMemFreeAsync)(at, stream_));
  finish(stream_);
  EXPECT_EQ(free_bytes(), before - 8 * mib);
  const CUdeviceptr again = take(8 * mib);
  EXPECT_EQ(reserved(), 8 * mib) << "out of what it kept";
  ASSERT_CU(MODEL(cuMemFreeAsync)(again, stream_));
  finish(stream_);
  ASSERT_CU(MODEL(cuMemPoolTrimTo)(pool_, 0));
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(ModelledPools, GiveBackOnlyWhatTheHostHasSeenFree) {
  const CUdeviceptr at = take(8 * mib);
  ASSERT_CU(MODEL(cuMemFreeAsync)(at, stream_));
  CUdeviceptr base = 0;
  std::size_t size = 0;
  while (MODEL(cuMemGetAddressRange)(&base, &size, at) == CUDA_SUCCESS) std::this_thread::yield();
  ASSERT_CU(MODEL(cuMemPoolTrimTo)(pool_, 0));
  EXPECT_EQ(reserved(), 8 * mib) << "it is free, but nobody has looked";
  finish(stream_);
  ASSERT_CU(MODEL(cuMemPoolTrimTo)(pool_, 0));
  EXPECT_EQ(reserved(), 0U);
}

TEST_F(ModelledPools, GiveBackAboveTheirThresholdWhenTheHostSynchronizes) {
  keep(4 * mib);
  const CUdeviceptr at = take(8 * mib);
  ASSERT_CU(MODEL(cuMemFreeAsync)(at, stream_));
  finish(stream_);
  EXPECT_EQ(reserved(), 4 * mib);
}

TEST_F(ModelledPools, OutliveTheirHandleWhileMemoryIsOut) {
  const auto before = free_bytes();
  const CUdeviceptr at = take(8 * mib);
  ASSERT_CU(MODEL(cuMemPoolDestroy)(pool_));
  EXPECT_REFUSED(MODEL(cuMemPoolTrimTo)(pool_, 0), CUDA_ERROR_INVALID_VALUE, "destroyed");
  pool_ = nullptr;
  EXPECT_EQ(free_bytes(), before - 8 * mib);
  ASSERT_CU(MODEL(cuMemFreeAsync)(at, stream_));
  finish(stream_);
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(ModelledPools, TellOfAnEndWithFreesThatTheHostHasNotSeen) {
  constexpr const char* words = "with frees that the host has not seen";
  {
    const Busy busy(stream_);
    ASSERT_CU(MODEL(cuMemFreeAsync)(take(mib), stream_));
    ASSERT_CU(MODEL(cuMemPoolDestroy)(std::exchange(pool_, nullptr)));
  }
  expect_told(words);
  finish(stream_);
}

TEST_F(ModelledPools, TellOfFreesThatComeBeforeTheAllocation) {
  CUdeviceptr at = take(mib);
  ASSERT_CU(MODEL(cuMemFreeAsync)(at, other_));
  finish(other_);
  expect_told("is freed on a stream that is not ordered after its allocation");
  Busy busy(stream_);
  at = take(mib);
  ASSERT_CU(MODEL(cuMemFree)(at));
  expect_told("before its allocation in order of a stream is known to be over");
}

TEST_F(ModelledPools, FreeNothingElse) {
  EXPECT_REFUSED(MODEL(cuMemFreeAsync)(memory_, stream_), CUDA_ERROR_INVALID_VALUE,
                 "not the beginning of memory of a pool");
}

}  // namespace
}  // namespace weir::cuda_test
