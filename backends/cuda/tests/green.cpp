// SPDX-License-Identifier: Apache-2.0
#include "green.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "native.hpp"

namespace weir::cuda_test {
namespace {

struct GreenApi {
  decltype(&::cuDeviceGetDevResource) DeviceGetDevResource = nullptr;
  decltype(&::cuDevSmResourceSplitByCount) DevSmResourceSplitByCount = nullptr;
  decltype(&::cuDevResourceGenerateDesc) DevResourceGenerateDesc = nullptr;
  decltype(&::cuGreenCtxCreate) GreenCtxCreate = nullptr;
  decltype(&::cuGreenCtxDestroy) GreenCtxDestroy = nullptr;
  decltype(&::cuCtxFromGreenCtx) CtxFromGreenCtx = nullptr;
  decltype(&::cuGreenCtxStreamCreate) GreenCtxStreamCreate = nullptr;
  bool complete = true;
};

const GreenApi& green_api() {
  static const GreenApi api = [] {
    GreenApi found;
    const char* path = getenv("WEIR_CUDA_LIBRARY");
    void* library = dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    const auto find = library ? reinterpret_cast<CUresult(CUDAAPI*)(const char*, void**, int, cuuint64_t, void*)>(
                                    dlsym(library, "cuGetProcAddress_v2"))
                              : nullptr;
    const auto one = [&](auto& slot, const char* name) {
      void* address = nullptr;
      if (!find || find(name, &address, 12050, CU_GET_PROC_ADDRESS_LEGACY_STREAM, nullptr) != CUDA_SUCCESS) {
        address = nullptr;
      }
      slot = reinterpret_cast<std::remove_reference_t<decltype(slot)>>(address);
      found.complete = found.complete && address;
    };
#define WEIR_TEST_GREEN(name) one(found.name, "cu" #name)
    WEIR_TEST_GREEN(DeviceGetDevResource);
    WEIR_TEST_GREEN(DevSmResourceSplitByCount);
    WEIR_TEST_GREEN(DevResourceGenerateDesc);
    WEIR_TEST_GREEN(GreenCtxCreate);
    WEIR_TEST_GREEN(GreenCtxDestroy);
    WEIR_TEST_GREEN(CtxFromGreenCtx);
    WEIR_TEST_GREEN(GreenCtxStreamCreate);
#undef WEIR_TEST_GREEN
    return found;
  }();
  return api;
}

}  // namespace

std::unique_ptr<GreenContext> GreenContext::make() {
  const GreenApi& cu = green_api();
  if (!cu.complete) return nullptr;
  (void)primary();
  CUdevResource all{}, part{};
  CUdevResourceDesc description = nullptr;
  unsigned int parts = 1;
  std::unique_ptr<GreenContext> made(new GreenContext);
  if (cu.DeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM) != CUDA_SUCCESS ||
      cu.DevSmResourceSplitByCount(&part, &parts, &all, nullptr, 0, 8) != CUDA_SUCCESS || parts == 0 ||
      cu.DevResourceGenerateDesc(&description, &part, 1) != CUDA_SUCCESS ||
      cu.GreenCtxCreate(&made->green_, description, 0, CU_GREEN_CTX_DEFAULT_STREAM) != CUDA_SUCCESS) {
    return nullptr;
  }
  EXPECT_CU(cu.CtxFromGreenCtx(&made->context_, made->green_));
  EXPECT_CU(cu.GreenCtxStreamCreate(&made->stream_, made->green_, CU_STREAM_NON_BLOCKING, 0));
  return made;
}

GreenContext::~GreenContext() {
  if (!green_) return;
  {
    const Current current(context_);
    EXPECT_CU(api().StreamSynchronize(stream_));
    EXPECT_CU(api().StreamDestroy(stream_));
  }
  EXPECT_CU(green_api().GreenCtxDestroy(green_));
}

}  // namespace weir::cuda_test
