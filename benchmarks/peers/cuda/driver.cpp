// SPDX-License-Identifier: Apache-2.0
#include "driver.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace weir::bench {
namespace {

using Find = CUresult(CUDAAPI*)(const char*, void**, int, cuuint64_t, void*);

Find open_driver() {
  const char* path = std::getenv("WEIR_CUDA_LIBRARY");
  void* library = dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(dlerror());
  const auto find = reinterpret_cast<Find>(dlsym(library, "cuGetProcAddress_v2"));
  if (!find) throw std::runtime_error("the CUDA driver has no cuGetProcAddress_v2");
  return find;
}

CudaDriver load() {
  CudaDriver found;
  const auto one = [&](auto& slot, const char* name, int version) {
    slot = reinterpret_cast<std::remove_reference_t<decltype(slot)>>(find_in_cuda(name, version));
  };
#define WEIR_BENCH_LOAD(name, version) one(found.name, "cu" #name, version);
  WEIR_BENCH_CUDA_SYMBOLS(WEIR_BENCH_LOAD)
#undef WEIR_BENCH_LOAD
  must(found.Init(0), "cuInit");
  return found;
}

CUcontext primary_context() {
  CUdevice device = 0;
  must(cuda_driver().DeviceGet(&device, 0), "cuDeviceGet");
  CUcontext context = nullptr;
  must(cuda_driver().DevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  return context;
}

}  // namespace

void* find_in_cuda(const char* name, int version) {
  static const Find find = open_driver();
  void* address = nullptr;
  must(find(name, &address, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, nullptr), name);
  if (!address) throw std::runtime_error(std::string("the CUDA driver has no ") + name);
  return address;
}

const CudaDriver& cuda_driver() {
  static const CudaDriver driver = load();
  return driver;
}

void must(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  throw std::runtime_error(std::string(call) + " failed with error " +
                           std::to_string(static_cast<int>(result)));
}

void make_cuda_current() {
  static const CUcontext context = primary_context();  // for ever
  must(cuda_driver().CtxSetCurrent(context), "cuCtxSetCurrent");
}

std::shared_ptr<CUstream_st> make_cuda_stream() {
  make_cuda_current();
  CUstream made = nullptr;
  must(cuda_driver().StreamCreate(&made, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  return {made, [](CUstream stream) {
            cuda_driver().StreamSynchronize(stream);
            cuda_driver().StreamDestroy(stream);
          }};
}

void synchronize_cuda(CUstream stream) {
  must(cuda_driver().StreamSynchronize(stream), "cuStreamSynchronize");
}

}  // namespace weir::bench
