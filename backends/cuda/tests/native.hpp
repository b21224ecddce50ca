// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an application does beside weir: its own loading of the driver, its streams, contexts and memory.

#include <cuda.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "weir/cuda.hpp"

namespace weir::cuda_test {

/// Driver functions that the tests call themselves; all in the form that cuda.h declares, but for cuCtxCreate.
struct Api {
  CUresult(CUDAAPI* CtxCreate)(CUcontext*, unsigned int, CUdevice) = nullptr;
#define WEIR_TEST_SYMBOLS(X)                                                                                       \
  X(CtxDestroy, 4000)                                                                                              \
  X(CtxPopCurrent, 4000)                                                                                           \
  X(CtxGetCurrent, 4000)                                                                                           \
  X(CtxSetCurrent, 4000) X(DevicePrimaryCtxRetain, 7000) X(StreamCreate, 2000) X(StreamDestroy, 4000)              \
      X(StreamSynchronize, 2000) X(StreamGetCtx, 9020) X(StreamBeginCapture, 10010) X(StreamEndCapture, 10000)     \
          X(GraphDestroy, 10000) X(MemAlloc, 3020) X(MemFree, 3020) X(MemHostAlloc, 2020) X(MemFreeHost, 2000)     \
              X(MemAllocManaged, 6000) X(MemAllocAsync, 11020) X(MemFreeAsync, 11020) X(MemcpyAsync, 4000)         \
                  X(ModuleLoadData, 2000) X(ModuleGetFunction, 2000) X(LaunchKernel, 4000)                         \
                      X(MemGetAllocationGranularity, 10020) X(MemCreate, 10020) X(MemRelease, 10020)               \
                          X(MemAddressReserve, 10020) X(MemAddressFree, 10020) X(MemMap, 10020) X(MemUnmap, 10020) \
                              X(MemSetAccess, 10020) X(MemRangeGetAttribute, 8000) X(StreamQuery, 2000)            \
                                  X(EventCreate, 2000) X(EventDestroy, 4000) X(EventRecord, 2000)                  \
                                      X(MemsetD8Async, 3020) X(MemPoolCreate, 11020) X(MemPoolDestroy, 11020)      \
                                          X(MemPoolSetAttribute, 11020) X(MemPoolGetAttribute, 11020)              \
                                              X(MemPoolTrimTo, 11020) X(MemAllocFromPoolAsync, 11020)              \
                                                  X(EventSynchronize, 2000) X(MemGetAddressRange, 3020)            \
                                                      X(MemGetAccess, 10020) X(MemRetainAllocationHandle, 11000)   \
                                                          X(MemGetAllocationPropertiesFromHandle, 10020) \
      X(GraphInstantiateWithFlags, 11040) X(GraphExecDestroy, 10000)
#define WEIR_TEST_DECLARE(name, version) decltype(&::cu##name) name = nullptr;
  WEIR_TEST_SYMBOLS(WEIR_TEST_DECLARE)
#undef WEIR_TEST_DECLARE
};
const Api& api();

#define ASSERT_CU(expression) ASSERT_EQ((expression), CUDA_SUCCESS)
#define EXPECT_CU(expression) EXPECT_EQ((expression), CUDA_SUCCESS)

/// Skips with the reason when there is no CUDA device; fails instead when WEIR_REQUIRE names cuda.
class CudaTest : public testing::Test {
 protected:
  void SetUp() override;
  [[nodiscard]] static Device gpu() { return cuda::device(0); }
};

/// Makes a context current, or none; restores what was.
class Current {
 public:
  explicit Current(CUcontext context);
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  ~Current();
  static CUcontext now();

 private:
  CUcontext before_;
};

/// The primary context of a device; retained for ever.
CUcontext primary(int ordinal = 0);

/// A context that is not the primary one. Not current.
class OtherContext {
 public:
  OtherContext();
  OtherContext(const OtherContext&) = delete;
  OtherContext& operator=(const OtherContext&) = delete;
  ~OtherContext();
  [[nodiscard]] CUcontext get() const { return context_; }

 private:
  CUcontext context_ = nullptr;
};

/// An application's stream, non-blocking if nothing else is said.
class NativeStream {
 public:
  explicit NativeStream(CUcontext context = primary(), unsigned int flags = CU_STREAM_NON_BLOCKING);
  NativeStream(const NativeStream&) = delete;
  NativeStream& operator=(const NativeStream&) = delete;
  ~NativeStream();
  [[nodiscard]] CUstream get() const { return stream_; }
  /// Destroy it now, with whatever work it has.
  void destroy();

 private:
  CUcontext context_;
  CUstream stream_ = nullptr;
};

/// While it lives, handles of streams that ended come again, as real drivers have it and the model only here.
class HandlesComeAgain {
 public:
  HandlesComeAgain() { set(1); }
  HandlesComeAgain(const HandlesComeAgain&) = delete;
  HandlesComeAgain& operator=(const HandlesComeAgain&) = delete;
  ~HandlesComeAgain() { set(0); }

 private:
  static void set(int yes);
};

/// A kernel that keeps a stream busy until `release()`, and in any case for no more than ten seconds; and then writes.
class Busy {
 public:
  /// `bytes` at `at`, multiples of 4, become full of `value`.
  struct Write {
    CUdeviceptr at = 0;
    std::size_t bytes = 0;
    unsigned int value = 0;
  };
  explicit Busy(CUstream stream) : Busy(stream, Write{}) {}
  Busy(CUstream stream, const Write& write);
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  ~Busy();
  void release();
  /// The stream is destroyed. The test sees to it that the kernel has ended before this object does.
  void lose_stream() { stream_ = nullptr; }

 private:
  unsigned int* word_ = nullptr;
  CUstream stream_;
};

}  // namespace weir::cuda_test
