// SPDX-License-Identifier: Apache-2.0
#pragma once
// The CUDA driver as an application without weir uses it.

#include <cuda.h>

#include <memory>

namespace weir::bench {

/// Driver functions by the names that cuda.h gives them without "cu", in the form of the version.
#define WEIR_BENCH_CUDA_SYMBOLS(X)                                                                         \
  X(Init, 2000)                                                                                            \
  X(DeviceGet, 2000)                                                                                       \
  X(DevicePrimaryCtxRetain, 7000) X(CtxSetCurrent, 4000) X(StreamCreate, 2000) X(StreamDestroy, 4000)      \
      X(StreamSynchronize, 2000) X(LaunchHostFunc, 10000) X(MemPoolCreate, 11020) X(MemPoolDestroy, 11020) \
          X(MemPoolSetAttribute, 11020) X(MemAllocAsync, 11020) X(MemAllocFromPoolAsync, 11020)            \
              X(MemFreeAsync, 11020) X(MemHostAlloc, 2020) X(MemFreeHost, 2000) X(ModuleLoadData, 2000)    \
                  X(ModuleGetFunction, 2000) X(LaunchKernel, 4000)

struct CudaDriver {
#define WEIR_BENCH_DECLARE(name, version) decltype(&::cu##name) name = nullptr;
  WEIR_BENCH_CUDA_SYMBOLS(WEIR_BENCH_DECLARE)
#undef WEIR_BENCH_DECLARE
};

/// The same library that weir loads: WEIR_CUDA_LIBRARY, else libcuda.so.1. Throws std::runtime_error without
/// one.
[[nodiscard]] const CudaDriver& cuda_driver();

/// Return another function of that library by its name in cuda.h. Throws std::runtime_error when it has none.
[[nodiscard]] void* find_in_cuda(const char* name, int version);
template <class F>
[[nodiscard]] F cuda_function(const char* name, int version) {
  return reinterpret_cast<F>(find_in_cuda(name, version));
}

/// Throws std::runtime_error naming the call, unless it succeeded.
void must(CUresult result, const char* call);

/// The primary context of the first device becomes this thread's.
void make_cuda_current();

/// A new stream of that context, which waits for its work and ends with its last copy.
[[nodiscard]] std::shared_ptr<CUstream_st> make_cuda_stream();
void synchronize_cuda(CUstream stream);

}  // namespace weir::bench
