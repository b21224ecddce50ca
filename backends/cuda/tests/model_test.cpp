// SPDX-License-Identifier: Apache-2.0
// What the modelled driver of fake/ refuses, and what it tells of that a real one would let pass: its rules are what
// the other suites over it rest on.
#include "model.hpp"
#include "threads.hpp"

#include <cstdint>

namespace weir::cuda_test {
namespace {

TEST_F(Model, FreesOfWhatIsNotAllocated) {
  EXPECT_REFUSED(MODEL(cuMemFree)(memory_ + 256), CUDA_ERROR_INVALID_VALUE, "inside of memory");
  EXPECT_REFUSED(MODEL(cuMemFreeHost)(reinterpret_cast<void*>(memory_)), CUDA_ERROR_INVALID_VALUE, "of that kind");
  ASSERT_CU(MODEL(cuMemFree)(memory_));
  EXPECT_REFUSED(MODEL(cuMemFree)(memory_), CUDA_ERROR_INVALID_VALUE, "ended by cuMemFree");
  memory_ = 0;
}

TEST_F(Model, UseBeyondTheEndAndAfterIt) {
  EXPECT_REFUSED(fill(memory_, bytes + 1, stream_), CUDA_ERROR_INVALID_VALUE, "reach beyond");
  EXPECT_REFUSED(fill(memory_ - 1, 1, stream_), CUDA_ERROR_INVALID_VALUE, "cuMemsetD8Async");
  EXPECT_REFUSED(MODEL(cuMemcpyAsync)(memory_, memory_ + 8, 16, stream_), CUDA_ERROR_INVALID_VALUE, "overlap");
  EXPECT_REFUSED(MODEL(cuMemsetD32Async)(memory_ + 1, 1, 1, stream_), CUDA_ERROR_INVALID_VALUE, "aligned");
  ASSERT_CU(MODEL(cuMemFree)(memory_));
  EXPECT_REFUSED(fill(memory_, 1, stream_), CUDA_ERROR_INVALID_VALUE, "is not allocated");
  memory_ = 0;
}

TEST_F(Model, FreesUnderWorkThatIsNotKnownToBeOver) {
  ASSERT_CU(fill(memory_, bytes, stream_));
  ASSERT_CU(MODEL(cuMemFree)(memory_));
  memory_ = 0;
  expect_told("is known to be over");
}

TEST_F(Model, MemoryOfAPool) {
  CUdeviceptr ordered = 0;
  ASSERT_CU(MODEL(cuMemAllocAsync)(&ordered, bytes, stream_));
  ASSERT_CU(fill(ordered, bytes, other_));
  finish(other_);
  expect_told("is not ordered after that");
  ASSERT_CU(MODEL(cuMemFreeAsync)(ordered, stream_));
  finish(stream_);
  EXPECT_EQ(test::take_violations(), "") << "the host has seen the end of the use";
  EXPECT_REFUSED(MODEL(cuMemFreeAsync)(ordered, stream_), CUDA_ERROR_INVALID_VALUE, "cuMemFreeAsync");
  EXPECT_REFUSED(fill(ordered, 1, stream_), CUDA_ERROR_INVALID_VALUE, "is not allocated");
}

TEST_F(Model, MemoryOfAPoolUnderWorkOfAnotherStream) {
  CUdeviceptr ordered = 0;
  ASSERT_CU(MODEL(cuMemAllocAsync)(&ordered, bytes, stream_));
  finish(stream_);
  ASSERT_CU(fill(ordered, bytes, other_));
  ASSERT_CU(MODEL(cuMemFreeAsync)(ordered, stream_));
  finish(stream_);
  expect_told("end before work");
}

TEST_F(Model, PhysicalHandles) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
  std::size_t step = 0;
  ASSERT_CU(MODEL(cuMemGetAllocationGranularity)(&step, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr at = 0;
  EXPECT_REFUSED(MODEL(cuMemCreate)(&handle, step + 1, &properties, 0), CUDA_ERROR_INVALID_VALUE, "wrong size");
  ASSERT_CU(MODEL(cuMemCreate)(&handle, step, &properties, 0));
  int fd = -1;
  EXPECT_REFUSED(MODEL(cuMemExportToShareableHandle)(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                 CUDA_ERROR_INVALID_VALUE, "to be exported");
  ASSERT_CU(MODEL(cuMemAddressReserve)(&at, 2 * step, 0, 0, 0));
  EXPECT_REFUSED(MODEL(cuMemMap)(at + 2 * step, step, 0, handle, 0), CUDA_ERROR_INVALID_VALUE, "not reserved");
  EXPECT_REFUSED(MODEL(cuMemMap)(at + 256, step, 0, handle, 0), CUDA_ERROR_INVALID_VALUE, "not whole granules");
  EXPECT_REFUSED(MODEL(cuMemMap)(at, step - 256, 0, handle, 0), CUDA_ERROR_INVALID_VALUE, "not whole granules");
  EXPECT_REFUSED(MODEL(cuMemMap)(at, 2 * step, 0, handle, 0), CUDA_ERROR_INVALID_VALUE, "is mapped whole");
  EXPECT_REFUSED(MODEL(cuMemMap)(at, step, step, handle, 0), CUDA_ERROR_INVALID_VALUE, "from its beginning");
  ASSERT_CU(MODEL(cuMemMap)(at, step, 0, handle, 0));
  EXPECT_REFUSED(MODEL(cuMemMap)(at, step, 0, handle, 0), CUDA_ERROR_INVALID_VALUE, "mapped already");
  ASSERT_CU(MODEL(cuMemRelease)(handle));  // the memory stays while it is mapped
  EXPECT_REFUSED(MODEL(cuMemRelease)(handle), CUDA_ERROR_INVALID_VALUE, "released");
  EXPECT_REFUSED(fill(at, 1, stream_), CUDA_ERROR_INVALID_VALUE, "without access");
  CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READ};
  ASSERT_CU(MODEL(cuMemSetAccess)(at, step, &access, 1));
  EXPECT_REFUSED(fill(at, 1, stream_), CUDA_ERROR_INVALID_VALUE, "reading only");
  EXPECT_REFUSED(MODEL(cuMemcpyAsync)(at, memory_, 1, stream_), CUDA_ERROR_INVALID_VALUE, "reading only");
  EXPECT_REFUSED(fill(at + step, 1, stream_), CUDA_ERROR_INVALID_VALUE, "allocated");
  EXPECT_REFUSED(MODEL(cuMemSetAccess)(at, step / 2, &access, 1), CUDA_ERROR_INVALID_VALUE, "not whole granules");
  EXPECT_REFUSED(MODEL(cuMemSetAccess)(at, 2 * step, &access, 1), CUDA_ERROR_INVALID_VALUE, "not what was mapped");
  EXPECT_REFUSED(MODEL(cuMemUnmap)(at + 256, step), CUDA_ERROR_INVALID_VALUE, "not whole granules");
  EXPECT_REFUSED(MODEL(cuMemUnmap)(at, 2 * step), CUDA_ERROR_INVALID_VALUE, "not what was mapped");
  EXPECT_REFUSED(MODEL(cuMemAddressFree)(at, 2 * step), CUDA_ERROR_INVALID_VALUE, "still mapped");
  ASSERT_CU(MODEL(cuMemUnmap)(at, step));
  EXPECT_REFUSED(MODEL(cuMemAddressFree)(at, step), CUDA_ERROR_INVALID_VALUE, "not a reservation");
  ASSERT_CU(MODEL(cuMemAddressFree)(at, 2 * step));
}

TEST_F(Model, FilesThatAreNotHandles) {
  CUmemGenericAllocationHandle handle = 0;
  auto* const file = reinterpret_cast<void*>(std::intptr_t{0});
  EXPECT_EQ(MODEL(cuMemImportFromShareableHandle)(&handle, file, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_REFUSED(MODEL(cuMemImportFromShareableHandle)(&handle, file, CU_MEM_HANDLE_TYPE_WIN32),
                 CUDA_ERROR_NOT_SUPPORTED, "not a file");
}

TEST_F(Model, ContextsAndHandles) {
  const OtherContext elsewhere;
  CUevent event = nullptr;
  ASSERT_CU(MODEL(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
  EXPECT_EQ(MODEL(cuStreamWaitEvent)(stream_, event, 0), CUDA_SUCCESS) << "never recorded: nothing to wait for";
  {
    const NativeStream theirs(elsewhere.get());
    const Current there(elsewhere.get());
    EXPECT_REFUSED(MODEL(cuEventRecord)(event, theirs.get()), CUDA_ERROR_INVALID_HANDLE, "another context");
    EXPECT_REFUSED(fill(memory_, 1, stream_), CUDA_ERROR_INVALID_CONTEXT, "another context");
  }
  test::Thread([] {
    CUdeviceptr at = 0;
    EXPECT_REFUSED(MODEL(cuMemAlloc)(&at, 1), CUDA_ERROR_INVALID_CONTEXT, "no context");
  }).join();
  ASSERT_CU(MODEL(cuEventDestroy)(event));
  EXPECT_REFUSED(MODEL(cuEventRecord)(event, stream_), CUDA_ERROR_INVALID_HANDLE, "destroyed");
  EXPECT_REFUSED(MODEL(cuEventDestroy)(event), CUDA_ERROR_INVALID_HANDLE, "twice");
  finish(other_);
  ASSERT_CU(MODEL(cuStreamDestroy)(other_));
  EXPECT_REFUSED(fill(memory_, 1, other_), CUDA_ERROR_INVALID_HANDLE, "not a stream");
  other_ = nullptr;
}

TEST_F(Model, CallsInAHostFunction) {
  CUresult refused = CUDA_SUCCESS;
  ASSERT_CU(MODEL(cuLaunchHostFunc)(
      stream_, [](void* result) { *static_cast<CUresult*>(result) = MODEL(cuEventQuery)(nullptr); }, &refused));
  finish(stream_);
  EXPECT_REFUSED(refused, CUDA_ERROR_NOT_PERMITTED, "in a host function");
}

}  // namespace
}  // namespace weir::cuda_test
