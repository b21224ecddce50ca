// SPDX-License-Identifier: Apache-2.0
// The modelled driver's rules for streams: whose handles are whose, who waits for whom, what has no order, what a fault
// ends.
#include <future>
#include <thread>

#include "model.hpp"

namespace weir::cuda_test {
namespace {

using namespace std::chrono_literals;

class ModelledStreams : public Model {
 protected:
  /// New contexts, as it were.
  static void mend() {
    reinterpret_cast<void (*)(const char*, int, int)>(test::find_in_model("fake_cuda_fail"))("", 0, 0);
  }
  static void break_device(CUresult code) {
    reinterpret_cast<void (*)(int, int)>(test::find_in_model("fake_cuda_fault"))(0, code);
  }
};

TEST_F(ModelledStreams, FlagsAreOnesThatThereAre) {
  CUstream stream = nullptr;
  EXPECT_EQ(MODEL(cuStreamCreate)(&stream, 2), CUDA_ERROR_INVALID_VALUE);
}

// A real driver would crash.
TEST_F(ModelledStreams, EveryCallOnADestroyedStreamIsTold) {
  ASSERT_CU(MODEL(cuStreamDestroy)(other_));
  CUevent event = nullptr;
  ASSERT_CU(MODEL(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
  unsigned long long id = 0;
  CUcontext context = nullptr;
  CUstreamCaptureStatus capture{};
  CUstream again = nullptr;
  ASSERT_CU(MODEL(cuStreamCreate)(&again, CU_STREAM_NON_BLOCKING));
  EXPECT_NE(again, other_) << "a handle that comes again hides who uses the old one";
  EXPECT_REFUSED(MODEL(cuStreamGetId)(other_, &id), CUDA_ERROR_INVALID_HANDLE, "cuStreamGetId: not a stream");
  EXPECT_REFUSED(MODEL(cuStreamGetCtx)(other_, &context), CUDA_ERROR_INVALID_HANDLE, "cuStreamGetCtx");
  EXPECT_REFUSED(MODEL(cuStreamIsCapturing)(other_, &capture), CUDA_ERROR_INVALID_HANDLE, "cuStreamIsCapturing");
  EXPECT_REFUSED(MODEL(cuStreamQuery)(other_), CUDA_ERROR_INVALID_HANDLE, "cuStreamQuery");
  EXPECT_REFUSED(MODEL(cuStreamSynchronize)(other_), CUDA_ERROR_INVALID_HANDLE, "cuStreamSynchronize");
  EXPECT_REFUSED(MODEL(cuEventRecord)(event, other_), CUDA_ERROR_INVALID_HANDLE, "cuEventRecord");
  EXPECT_REFUSED(MODEL(cuStreamWaitEvent)(other_, event, 0), CUDA_ERROR_INVALID_HANDLE, "cuStreamWaitEvent");
  EXPECT_REFUSED(fill(memory_, 1, other_), CUDA_ERROR_INVALID_HANDLE, "cuMemsetD8Async");
  EXPECT_REFUSED(MODEL(cuStreamDestroy)(other_), CUDA_ERROR_INVALID_HANDLE, "destroyed twice");
  ASSERT_CU(MODEL(cuEventDestroy)(event));
  other_ = again;
}

TEST_F(ModelledStreams, HandlesComeAgainForATestThatWantsIt) {
  const HandlesComeAgain again;
  finish(other_);
  ASSERT_CU(MODEL(cuStreamDestroy)(other_));
  const CUstream before = other_;
  ASSERT_CU(MODEL(cuStreamCreate)(&other_, CU_STREAM_NON_BLOCKING));
  EXPECT_EQ(other_, before);
}

TEST_F(ModelledStreams, ConflictingWorkWithoutOrderIsTold) {
  ASSERT_CU(fill(memory_, 100, stream_));
  ASSERT_CU(fill(memory_ + 99, 100, other_));
  finish(stream_);
  finish(other_);
  expect_told("neither is ordered after the other");
  ASSERT_CU(fill(memory_, 100, stream_));  // the host has seen all of it
  ASSERT_CU(fill(memory_ + 100, 100, other_));
  finish(stream_);
  finish(other_);
  EXPECT_EQ(test::take_violations(), "") << "other bytes";
}

TEST_F(ModelledStreams, WorkThatWaitsHasAnOrder) {
  CUevent event = nullptr;
  ASSERT_CU(MODEL(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
  ASSERT_CU(fill(memory_, 100, stream_));
  ASSERT_CU(MODEL(cuEventRecord)(event, stream_));
  ASSERT_CU(MODEL(cuStreamWaitEvent)(other_, event, 0));
  ASSERT_CU(fill(memory_, 100, other_));
  finish(other_);
  EXPECT_EQ(test::take_violations(), "");
  ASSERT_CU(MODEL(cuMemcpyAsync)(memory_ + 4096, memory_, 100, stream_));
  ASSERT_CU(MODEL(cuMemcpyAsync)(memory_ + 5120, memory_, 100, other_));
  finish(stream_);
  finish(other_);
  EXPECT_EQ(test::take_violations(), "") << "both read";
  ASSERT_CU(MODEL(cuEventDestroy)(event));
}

TEST_F(ModelledStreams, TheLegacyStreamGivesAnOrder) {
  const NativeStream blocking(primary(), CU_STREAM_DEFAULT);
  ASSERT_CU(fill(memory_, 100, blocking.get()));
  ASSERT_CU(fill(memory_, 100, CU_STREAM_LEGACY));
  ASSERT_CU(fill(memory_, 100, blocking.get()));
  finish(blocking.get());
  EXPECT_EQ(test::take_violations(), "");
  ASSERT_CU(fill(memory_, 100, CU_STREAM_LEGACY));
  ASSERT_CU(fill(memory_, 100, stream_));
  finish(CU_STREAM_LEGACY);
  finish(stream_);
  expect_told("neither is ordered after the other");
}

TEST_F(ModelledStreams, AFreeWaitsForTheDeviceAndWhoWantsToUseItForTheFree) {
  CUdeviceptr unused = 0;
  ASSERT_CU(MODEL(cuMemAlloc)(&unused, bytes));
  Busy busy(stream_);
  auto freeing = std::async(std::launch::async, [&] {
    const Current current(primary());
    return MODEL(cuMemFree)(unused);
  });
  const auto blocking_frees = reinterpret_cast<int (*)()>(test::find_in_model("fake_cuda_blocking_frees"));
  const auto frees = [&] { return freeing.wait_for(0ms) == std::future_status::timeout; };
  while (blocking_frees() == 0 && frees()) std::this_thread::yield();
  auto filling = std::async(std::launch::async, [&] {
    const Current current(primary());
    return fill(memory_, bytes, other_);
  });
  EXPECT_EQ(filling.wait_for(50ms), std::future_status::timeout);
  EXPECT_TRUE(frees());
  EXPECT_EQ(MODEL(cuStreamQuery)(other_), CUDA_SUCCESS) << "a question";
  busy.release();
  EXPECT_CU(freeing.get());
  EXPECT_CU(filling.get());
  EXPECT_REFUSED(fill(unused, 1, other_), CUDA_ERROR_INVALID_VALUE, "cuMemFree");
}

TEST_F(ModelledStreams, AFreeThatWaitedTellsTheHostNothing) {
  CUdeviceptr unused = 0;
  ASSERT_CU(MODEL(cuMemAlloc)(&unused, bytes));
  ASSERT_CU(fill(memory_, bytes, stream_));
  ASSERT_CU(MODEL(cuMemFree)(unused));
  ASSERT_CU(MODEL(cuMemFree)(memory_));
  memory_ = 0;
  expect_told("is known to be over");
}

TEST_F(ModelledStreams, AfterAFaultEveryCallAnswersIt) {
  Busy busy(stream_);
  CUevent event = nullptr;
  ASSERT_CU(MODEL(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
  ASSERT_CU(MODEL(cuEventRecord)(event, stream_));
  constexpr auto code = CUDA_ERROR_CONTAINED;
  break_device(code);
  std::size_t free = 0, total = 0;
  CUdeviceptr at = 0;
  CUdevice device = 0;
  CUstream stream = nullptr;
  CUmemoryPool pool = nullptr;
  CUmemPoolProps properties{};
  EXPECT_EQ(MODEL(cuMemGetInfo)(&free, &total), code);
  EXPECT_EQ(MODEL(cuMemAlloc)(&at, 1), code);
  EXPECT_EQ(MODEL(cuMemFree)(memory_), code);
  EXPECT_EQ(MODEL(cuMemAddressReserve)(&at, std::size_t{2} << 20U, 0, 0, 0), code);
  EXPECT_EQ(MODEL(cuMemPoolCreate)(&pool, &properties), code);
  EXPECT_EQ(MODEL(cuCtxGetDevice)(&device), code);
  EXPECT_EQ(MODEL(cuStreamCreate)(&stream, 0), code);
  EXPECT_EQ(MODEL(cuStreamQuery)(stream_), code);
  EXPECT_EQ(MODEL(cuStreamSynchronize)(other_), code);
  EXPECT_EQ(MODEL(cuStreamQuery)(CU_STREAM_LEGACY), code);
  EXPECT_EQ(MODEL(cuEventQuery)(event), code);
  EXPECT_EQ(MODEL(cuEventSynchronize)(event), code);
  EXPECT_EQ(fill(memory_, 1, other_), code);
  const OtherContext elsewhere;
  const Current there(elsewhere.get());
  EXPECT_CU(MODEL(cuMemGetInfo)(&free, &total)) << "it is another context's";
  mend();
  ASSERT_CU(MODEL(cuEventDestroy)(event));
}

TEST_F(ModelledStreams, AFaultOfAPartIsThatOfTheWhole) {
  CUgreenCtx green = nullptr;
  CUcontext context = nullptr;
  ASSERT_CU(MODEL(cuGreenCtxCreate)(&green, nullptr, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  ASSERT_CU(MODEL(cuCtxFromGreenCtx)(&context, green));
  break_device(CUDA_ERROR_ASSERT);
  std::size_t free = 0, total = 0;
  const Current there(context);
  EXPECT_EQ(MODEL(cuMemGetInfo)(&free, &total), CUDA_ERROR_ASSERT);
  mend();
  ASSERT_CU(MODEL(cuGreenCtxDestroy)(green));
}

TEST_F(ModelledStreams, AKernelThatWritesWhereItMayReadFaults) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  constexpr std::size_t step = std::size_t{2} << 20U;
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr at = 0;
  ASSERT_CU(MODEL(cuMemCreate)(&handle, step, &properties, 0));
  ASSERT_CU(MODEL(cuMemAddressReserve)(&at, step, 0, 0, 0));
  ASSERT_CU(MODEL(cuMemMap)(at, step, 0, handle, 0));
  const CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READ};
  ASSERT_CU(MODEL(cuMemSetAccess)(at, step, &access, 1));
  {
    Busy busy(stream_, {at, 4096, 1});
    busy.release();
    while (MODEL(cuStreamQuery)(stream_) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
    EXPECT_EQ(MODEL(cuStreamQuery)(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
    mend();
  }
  ASSERT_CU(MODEL(cuMemUnmap)(at, step));
  ASSERT_CU(MODEL(cuMemAddressFree)(at, step));
  ASSERT_CU(MODEL(cuMemRelease)(handle));
}

TEST_F(ModelledStreams, GreenContextsShareMemoryAndNothingElse) {
  CUgreenCtx green = nullptr, of = nullptr;
  CUcontext context = nullptr, told = nullptr;
  CUstream part = nullptr;
  ASSERT_CU(MODEL(cuGreenCtxCreate)(&green, nullptr, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  ASSERT_CU(MODEL(cuCtxFromGreenCtx)(&context, green));
  ASSERT_CU(MODEL(cuGreenCtxStreamCreate)(&part, green, CU_STREAM_NON_BLOCKING, 0));
  EXPECT_EQ(MODEL(cuGreenCtxStreamCreate)(&part, green, CU_STREAM_DEFAULT, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_CU(MODEL(cuStreamGetGreenCtx)(part, &of));
  EXPECT_EQ(of, green);
  ASSERT_CU(MODEL(cuStreamGetGreenCtx)(stream_, &of));
  EXPECT_EQ(of, nullptr);
  ASSERT_CU(MODEL(cuStreamGetCtx)(part, &told));
  EXPECT_EQ(told, context);
  CUevent event = nullptr;
  ASSERT_CU(MODEL(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
  {
    const Current there(context);
    CUdevice device = -1;
    ASSERT_CU(MODEL(cuCtxGetDevice)(&device));
    EXPECT_EQ(device, 0);
    EXPECT_CU(fill(memory_, bytes, part)) << "memory of the primary context is its memory";
    EXPECT_REFUSED(MODEL(cuEventRecord)(event, part), CUDA_ERROR_INVALID_HANDLE, "another context");
    finish(part);
    ASSERT_CU(MODEL(cuStreamDestroy)(part));
  }
  ASSERT_CU(MODEL(cuEventDestroy)(event));
  ASSERT_CU(MODEL(cuGreenCtxDestroy)(green));
  EXPECT_REFUSED(MODEL(cuGreenCtxDestroy)(green), CUDA_ERROR_INVALID_CONTEXT, "not a green context");
}

TEST_F(ModelledStreams, FillsAndCopiesElsewhere) {
  const OtherContext elsewhere;
  const NativeStream stream(elsewhere.get());
  const Current there(elsewhere.get());
  EXPECT_REFUSED(fill(memory_, 1, stream.get()), CUDA_ERROR_INVALID_VALUE, "another context than the stream's");
  EXPECT_CU(MODEL(cuMemcpyAsync)(memory_, memory_ + 4096, 100, stream.get())) << "the driver finds out whose it is";
  CUdeviceptr managed = 0, theirs = 0;
  ASSERT_CU(MODEL(cuMemAllocManaged)(&managed, bytes, CU_MEM_ATTACH_GLOBAL));
  ASSERT_CU(MODEL(cuMemAlloc)(&theirs, bytes));
  EXPECT_CU(fill(managed, 1, stream.get())) << "it is everybody's";
  EXPECT_CU(fill(theirs, 1, stream.get()));
  finish(stream.get());
  EXPECT_CU(MODEL(cuMemFree)(managed));
  {
    const Current home(primary());
    EXPECT_REFUSED(fill(theirs, 1, stream_), CUDA_ERROR_INVALID_VALUE, "another context than the stream's");
  }
  EXPECT_CU(MODEL(cuMemFree)(theirs));
}

}  // namespace
}  // namespace weir::cuda_test
