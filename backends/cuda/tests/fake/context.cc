// SPDX-License-Identifier: Apache-2.0
// Contexts, and which one is current.
#include "world.hpp"

#include <utility>

using namespace fake;

extern "C" {

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  ENTER("cuDevicePrimaryCtxRetain");
  *context = reinterpret_cast<CUcontext>(world().primaries.at(static_cast<std::size_t>(device)));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI fake_cuCtxCreate(CUcontext* context, unsigned int, CUdevice device) {
  ENTER("cuCtxCreate");
  auto* made = new Context{device, nullptr, {}, ++world().last_id};
  world().others.push_back(made);
  here().current.push_back(made);
  *context = reinterpret_cast<CUcontext>(made);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxDestroy(CUcontext) {
  ENTER("cuCtxDestroy");
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxGetCurrent(CUcontext* context) {
  ENTER("cuCtxGetCurrent");
  *context = here().current.empty() ? nullptr : reinterpret_cast<CUcontext>(here().current.back());
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxSetCurrent(CUcontext context) {
  ENTER("cuCtxSetCurrent");
  if (!here().current.empty()) here().current.pop_back();
  if (context) here().current.push_back(reinterpret_cast<Context*>(context));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxPushCurrent(CUcontext context) {
  ENTER("cuCtxPushCurrent");
  here().current.push_back(reinterpret_cast<Context*>(context));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxPopCurrent(CUcontext* context) {
  ENTER("cuCtxPopCurrent");
  NEED_CONTEXT();
  *context = reinterpret_cast<CUcontext>(here().current.back());
  here().current.pop_back();
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxGetDevice(CUdevice* device) {
  ENTER("cuCtxGetDevice");
  NEED_CONTEXT();
  *device = here().current.back()->device;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxGetId(CUcontext context, unsigned long long* id) {
  ENTER("cuCtxGetId");
  *id = reinterpret_cast<Context*>(context)->id;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  ENTER("cuThreadExchangeStreamCaptureMode");
  std::swap(*mode, here().capture_mode);
  return CUDA_SUCCESS;
}

}  // extern "C"
