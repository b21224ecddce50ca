// SPDX-License-Identifier: Apache-2.0
// The functions by name.
#include "world.hpp"

using namespace fake;

extern "C" {

CUresult CUDAAPI fake_cuCtxCreate(CUcontext* context, unsigned int flags, CUdevice device);  // the form of CUDA 3.2
CUresult CUDAAPI fake_cuMemPrefetchAsync(CUdeviceptr at, size_t bytes, CUdevice to, CUstream on);  // of CUDA 8
CUresult CUDAAPI fake_cuStreamGetCaptureInfo(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*,
                                             const CUgraphNode**, size_t*);  // of CUDA 11.3

CUresult CUDAAPI cuGetProcAddress(const char* name, void** address, int, cuuint64_t,
                                  CUdriverProcAddressQueryResult* result) {
  static const auto& table = *new std::map<std::string, void*>{
      {"cuCtxCreate", reinterpret_cast<void*>(&fake_cuCtxCreate)},
      {"cuMemPrefetchAsync", reinterpret_cast<void*>(&fake_cuMemPrefetchAsync)},
      {"cuStreamGetCaptureInfo", reinterpret_cast<void*>(&fake_cuStreamGetCaptureInfo)},
#define WEIR_CUDA_SYMBOL(symbol, version) {"cu" #symbol, reinterpret_cast<void*>(&::cu##symbol)},
#include "../../symbols.inc"
      WEIR_CUDA_SYMBOL(CtxDestroy, 0) WEIR_CUDA_SYMBOL(CtxSetCurrent, 0) WEIR_CUDA_SYMBOL(StreamBeginCapture, 0)
          WEIR_CUDA_SYMBOL(StreamEndCapture, 0) WEIR_CUDA_SYMBOL(GraphDestroy, 0) WEIR_CUDA_SYMBOL(MemAllocAsync, 0)
              WEIR_CUDA_SYMBOL(ModuleLoadData, 0) WEIR_CUDA_SYMBOL(ModuleGetFunction, 0) WEIR_CUDA_SYMBOL(
                  LaunchKernel, 0) WEIR_CUDA_SYMBOL(MemRangeGetAttribute, 0) WEIR_CUDA_SYMBOL(DeviceGetDevResource, 0)
                  WEIR_CUDA_SYMBOL(DevSmResourceSplitByCount, 0) WEIR_CUDA_SYMBOL(DevResourceGenerateDesc, 0)
                      WEIR_CUDA_SYMBOL(GreenCtxCreate, 0) WEIR_CUDA_SYMBOL(GreenCtxDestroy, 0)
                          WEIR_CUDA_SYMBOL(CtxFromGreenCtx, 0) WEIR_CUDA_SYMBOL(GreenCtxStreamCreate, 0)
                              WEIR_CUDA_SYMBOL(StreamGetGreenCtx, 0) WEIR_CUDA_SYMBOL(EventDestroy, 0)
                                  WEIR_CUDA_SYMBOL(CtxRecordEvent, 0) WEIR_CUDA_SYMBOL(MemGetAccess, 0)
                                      WEIR_CUDA_SYMBOL(MemRetainAllocationHandle, 0)
                                          WEIR_CUDA_SYMBOL(GraphInstantiateWithFlags, 0)
                                              WEIR_CUDA_SYMBOL(GraphExecDestroy, 0)
#undef WEIR_CUDA_SYMBOL
  };
  const auto found = table.find(name);
  *address = found == table.end() ? nullptr : found->second;
  if (result) *result = *address ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return CUDA_SUCCESS;
}

}  // extern "C"
