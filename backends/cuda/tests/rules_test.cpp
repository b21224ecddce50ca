// SPDX-License-Identifier: Apache-2.0
// What the backend takes for granted of the driver, asked of whichever is there: on a GPU these tests hold the model of
// fake/ to the real driver.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "modelled_driver.hpp"
#include "native.hpp"

namespace weir::cuda_test {
namespace {

class Rules : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    current_.emplace(primary());
    ASSERT_CU(api().MemAlloc(&memory_, size));
  }
  void TearDown() override {
    if (memory_ != 0) {
      EXPECT_CU(api().MemFree(memory_));
    }
  }

  CUresult put_work(CUstream stream) const { return api().MemsetD8Async(memory_, 1, size, stream); }
  /// Long enough for work that wrongly goes on.
  static constexpr std::chrono::milliseconds moment{50};
  static void expect_not_ready(CUstream stream) {
    const auto end = std::chrono::steady_clock::now() + moment;
    do {
      ASSERT_EQ(api().StreamQuery(stream), CUDA_ERROR_NOT_READY);
      std::this_thread::yield();
    } while (std::chrono::steady_clock::now() < end);
  }
  /// The driver refuses, with the code that is known of it, or any; the model tells of it, too.
  static void expect_refused(CUresult result, CUresult known = CUDA_SUCCESS) {
    EXPECT_NE(result, CUDA_SUCCESS);
    if (known != CUDA_SUCCESS) {
      EXPECT_EQ(result, known);
    }
    (void)test::take_violations();
  }
  /// What the model refuses so that weir does not rely on it; drivers differ.
  [[nodiscard]] static bool over_model() { return test::find_in_model("fake_cuda_violations") != nullptr; }

  static constexpr std::size_t size = 4096;
  std::optional<Current> current_;
  CUdeviceptr memory_ = 0;
};

// A question about the legacy stream may be one about all blocking streams, so the host looks at what the work does.
TEST_F(Rules, TheLegacyStreamWaitsForBlockingStreams) {
  void* memory = nullptr;
  ASSERT_CU(api().MemHostAlloc(&memory, 1, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
  const std::atomic_ref seen(*static_cast<unsigned char*>(memory));
  seen.store(0);
  {
    const NativeStream blocking(primary(), CU_STREAM_DEFAULT);
    Busy busy(blocking.get());
    ASSERT_CU(api().MemsetD8Async(reinterpret_cast<CUdeviceptr>(memory), 1, 1, CU_STREAM_LEGACY));
    const auto end = std::chrono::steady_clock::now() + moment;
    while (seen.load() == 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    EXPECT_EQ(seen.load(), 0) << "it went on";
    EXPECT_EQ(api().StreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
    busy.release();
    EXPECT_CU(api().StreamSynchronize(CU_STREAM_LEGACY));
    EXPECT_EQ(seen.load(), 1);
    EXPECT_CU(api().StreamQuery(blocking.get()));
  }
  EXPECT_CU(api().MemFreeHost(memory));
}

TEST_F(Rules, BlockingStreamsWaitForTheLegacyStream) {
  const NativeStream blocking(primary(), CU_STREAM_DEFAULT);
  Busy busy(CU_STREAM_LEGACY);
  ASSERT_CU(put_work(blocking.get()));
  expect_not_ready(blocking.get());
  busy.release();
  EXPECT_CU(api().StreamSynchronize(blocking.get()));
}

TEST_F(Rules, PerThreadStreamsAreBlocking) {
  Busy busy(CU_STREAM_LEGACY);
  ASSERT_CU(put_work(CU_STREAM_PER_THREAD));
  expect_not_ready(CU_STREAM_PER_THREAD);
  busy.release();
  EXPECT_CU(api().StreamSynchronize(CU_STREAM_PER_THREAD));
}

// The hardware has few queues, so a stream may share the busy one's; not all of twice as many do.
TEST_F(Rules, NonBlockingStreamsDoNotWaitForTheLegacyStream) {
  std::vector<std::unique_ptr<NativeStream>> streams;
  for (int i = 0; i < 16; ++i) streams.push_back(std::make_unique<NativeStream>());
  Busy busy(CU_STREAM_LEGACY);
  CUdeviceptr each = memory_;
  for (const auto& stream : streams) {
    ASSERT_CU(api().MemsetD8Async(each, 1, size / 16, stream->get()));
    each += size / 16;
  }
  const auto went_on = [](const auto& stream) { return api().StreamQuery(stream->get()) == CUDA_SUCCESS; };
  while (std::none_of(streams.begin(), streams.end(), went_on)) {
    ASSERT_EQ(api().StreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY) << "none went on until it was done";
    std::this_thread::yield();
  }
  EXPECT_EQ(api().StreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
}

TEST_F(Rules, AnEventBelongsToTheContextItWasMadeIn) {
  const OtherContext elsewhere;
  const NativeStream stream(elsewhere.get());
  CUevent event = nullptr;
  ASSERT_CU(api().EventCreate(&event, CU_EVENT_DISABLE_TIMING));
  {
    const Current there(elsewhere.get());
    expect_refused(api().EventRecord(event, stream.get()), CUDA_ERROR_INVALID_HANDLE);
  }
  EXPECT_CU(api().EventDestroy(event));
}

// A stream that has not to do with what is freed may go on: the memory is known to be unused.
TEST_F(Rules, MemoryOfAPoolIsFreedWithoutWaiting) {
  const NativeStream stream, busy_stream;
  CUdeviceptr ordered = 0;
  ASSERT_CU(api().MemAllocAsync(&ordered, size, stream.get()));
  ASSERT_CU(api().StreamSynchronize(stream.get()));
  Busy busy(busy_stream.get());
  EXPECT_CU(api().MemFree(ordered));
  EXPECT_EQ(api().StreamQuery(busy_stream.get()), CUDA_ERROR_NOT_READY) << "it waited for the kernel";
}

class PoolRules : public Rules {
 protected:
  void SetUp() override {
    Rules::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    ASSERT_CU(api().MemPoolCreate(&pool_, &properties));
    cuuint64_t all = ~cuuint64_t{0};
    ASSERT_CU(api().MemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
  }
  void TearDown() override {
    if (pool_) {
      EXPECT_CU(api().MemPoolDestroy(pool_));
    }
    Rules::TearDown();
  }
  [[nodiscard]] cuuint64_t ask(CUmemPool_attribute attribute) const {
    cuuint64_t bytes = 0;
    EXPECT_CU(api().MemPoolGetAttribute(pool_, attribute, &bytes));
    return bytes;
  }
  [[nodiscard]] cuuint64_t reserved() const { return ask(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT); }
  [[nodiscard]] cuuint64_t used() const { return ask(CU_MEMPOOL_ATTR_USED_MEM_CURRENT); }

  CUmemoryPool pool_ = nullptr;
};

TEST_F(PoolRules, WhatIsFreedStaysInThePoolUntilItIsTrimmed) {
  constexpr std::size_t bytes = std::size_t{64} << 20U;
  const NativeStream stream;
  EXPECT_EQ(reserved(), 0U);
  CUdeviceptr ordered = 0;
  ASSERT_CU(api().MemAllocFromPoolAsync(&ordered, bytes, pool_, stream.get()));
  EXPECT_GE(reserved(), bytes);
  EXPECT_GE(used(), bytes);
  ASSERT_CU(api().MemPoolTrimTo(pool_, 0));
  EXPECT_GE(reserved(), bytes) << "it is in use";
  ASSERT_CU(api().MemFreeAsync(ordered, stream.get()));
  ASSERT_CU(api().StreamSynchronize(stream.get()));
  EXPECT_EQ(used(), 0U);
  EXPECT_GE(reserved(), bytes) << "kept: the threshold is endless";
  ASSERT_CU(api().MemPoolTrimTo(pool_, bytes / 2));
  EXPECT_GE(reserved(), bytes / 2);
  ASSERT_CU(api().MemPoolTrimTo(pool_, 0));
  EXPECT_EQ(reserved(), 0U);
  EXPECT_GE(ask(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), bytes);
}

// Some drivers count it as used for long; weir frees in order, and looks.
TEST_F(PoolRules, WhatTheHostFreesIsFreeOnceItHasSeenAnEventAfterIt) {
  const NativeStream stream, idle;
  CUdeviceptr ordered = 0;
  CUevent event = nullptr;
  ASSERT_CU(api().EventCreate(&event, CU_EVENT_DISABLE_TIMING));
  ASSERT_CU(api().MemAllocFromPoolAsync(&ordered, size, pool_, stream.get()));
  ASSERT_CU(api().StreamSynchronize(stream.get()));
  ASSERT_CU(api().MemFreeAsync(ordered, idle.get()));
  ASSERT_CU(api().EventRecord(event, idle.get()));
  ASSERT_CU(api().EventSynchronize(event));
  EXPECT_GT(reserved(), 0U) << "it went back to the pool";
  ASSERT_CU(api().MemPoolTrimTo(pool_, 0));
  EXPECT_EQ(reserved(), 0U);
  EXPECT_CU(api().EventDestroy(event));
}

// An event after the free is enough to have seen it.
TEST_F(PoolRules, AnEventAfterAFreeShowsIt) {
  const NativeStream stream;
  CUdeviceptr ordered = 0;
  CUevent event = nullptr;
  ASSERT_CU(api().EventCreate(&event, CU_EVENT_DISABLE_TIMING));
  ASSERT_CU(api().MemAllocFromPoolAsync(&ordered, size, pool_, stream.get()));
  ASSERT_CU(api().MemFreeAsync(ordered, stream.get()));
  ASSERT_CU(api().EventRecord(event, stream.get()));
  ASSERT_CU(api().EventSynchronize(event));
  ASSERT_CU(api().MemPoolTrimTo(pool_, 0));
  EXPECT_EQ(reserved(), 0U);
  EXPECT_CU(api().EventDestroy(event));
}

/// A handle and addresses for three of it.
class MappingRules : public Rules {
 protected:
  void SetUp() override {
    Rules::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties_.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    ASSERT_CU(api().MemGetAllocationGranularity(&step_, &properties_, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    ASSERT_CU(api().MemAddressReserve(&at_, 3 * step_, 0, 0, 0));
    ASSERT_CU(api().MemCreate(&handle_, 2 * step_, &properties_, 0));
    ready_ = true;
  }
  void TearDown() override {
    if (ready_) {
      EXPECT_CU(api().MemRelease(handle_));
      EXPECT_CU(api().MemAddressFree(at_, 3 * step_));
    }
    Rules::TearDown();
  }
  CUresult map(CUdeviceptr at, std::size_t bytes, std::size_t offset = 0) const {
    return api().MemMap(at, bytes, offset, handle_, 0);
  }
  CUresult open(CUdeviceptr at, std::size_t bytes, CUmemAccess_flags flags) const {
    const CUmemAccessDesc access{properties_.location, flags};
    return api().MemSetAccess(at, bytes, &access, 1);
  }

  CUmemAllocationProp properties_{};
  std::size_t step_ = 0;
  CUdeviceptr at_ = 0;
  CUmemGenericAllocationHandle handle_ = 0;
  bool ready_ = false;
};

TEST_F(MappingRules, MapsAtWholeGranulesWhereNothingIs) {
  expect_refused(map(at_ + 256, 2 * step_), CUDA_ERROR_INVALID_VALUE);
  expect_refused(map(at_, 2 * step_ - 256));
  ASSERT_CU(map(at_, 2 * step_)) << "refusals changed nothing";
  expect_refused(map(at_, 2 * step_));
  EXPECT_CU(api().MemUnmap(at_, 2 * step_));
  ASSERT_CU(map(at_ + step_, 2 * step_));
  EXPECT_CU(api().MemUnmap(at_ + step_, 2 * step_));
}

TEST_F(MappingRules, MapsAndUnmapsWholeHandles) {
  if (!over_model()) GTEST_SKIP() << "some drivers map parts, which weir never asks for";
  expect_refused(map(at_, step_));
  expect_refused(map(at_, step_, step_));
  expect_refused(map(at_ + 2 * step_, 2 * step_));
  expect_refused(api().MemUnmap(at_, 2 * step_));
  ASSERT_CU(map(at_, 2 * step_));
  expect_refused(map(at_ + step_, 2 * step_));
  expect_refused(api().MemUnmap(at_, step_));
  expect_refused(api().MemUnmap(at_ + step_, step_));
  expect_refused(api().MemUnmap(at_ + 256, 2 * step_));
  EXPECT_CU(api().MemUnmap(at_, 2 * step_));
  expect_refused(api().MemUnmap(at_, 2 * step_));
}

TEST_F(MappingRules, OpensOnlyWhatIsMapped) {
  expect_refused(open(at_, 2 * step_, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  ASSERT_CU(map(at_, 2 * step_));
  expect_refused(open(at_ + 256, step_, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  expect_refused(open(at_, step_, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  expect_refused(open(at_, 3 * step_, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  EXPECT_CU(open(at_, 2 * step_, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  EXPECT_CU(api().MemUnmap(at_, 2 * step_));
}

TEST_F(MappingRules, FillsOfWhatIsForReadingAreRefused) {
  const NativeStream stream;
  ASSERT_CU(map(at_, 2 * step_));
  ASSERT_CU(open(at_, 2 * step_, CU_MEM_ACCESS_FLAGS_PROT_READ));
  expect_refused(api().MemsetD8Async(at_, 1, size, stream.get()));
  ASSERT_CU(put_work(stream.get()));
  ASSERT_CU(api().MemcpyAsync(memory_, at_, size, stream.get())) << "reading is allowed";
  ASSERT_CU(api().StreamSynchronize(stream.get()));
  ASSERT_CU(open(at_, 2 * step_, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  EXPECT_CU(api().MemsetD8Async(at_, 1, size, stream.get()));
  ASSERT_CU(api().StreamSynchronize(stream.get()));
  EXPECT_CU(api().MemUnmap(at_, 2 * step_));
}

}  // namespace
}  // namespace weir::cuda_test
