// SPDX-License-Identifier: Apache-2.0
// Contexts, and which one is current.
#include <algorithm>
#include <utility>

#include "world.hpp"

using namespace fake;

namespace {

/// The context of a handle, or null with a violation.
Context* known(const char* call, CUcontext handle, CUresult& code) {
  auto* context = reinterpret_cast<Context*>(handle);
  if (!world().contexts.count(context)) {
    code = violation(call, "not a context", CUDA_ERROR_INVALID_CONTEXT);
    return nullptr;
  }
  if (context->destroyed) {
    code = violation(call, "the context is destroyed", CUDA_ERROR_CONTEXT_IS_DESTROYED);
    return nullptr;
  }
  return context;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  ENTER_EVEN_AFTER_A_FAULT("cuDevicePrimaryCtxRetain");
  if (device < 0 || static_cast<std::size_t>(device) >= world().primaries.size()) return CUDA_ERROR_INVALID_DEVICE;
  *context = reinterpret_cast<CUcontext>(world().primaries[static_cast<std::size_t>(device)]);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI fake_cuCtxCreate(CUcontext* context, unsigned int, CUdevice device) {
  ENTER_EVEN_AFTER_A_FAULT("cuCtxCreate");
  if (device < 0 || static_cast<std::size_t>(device) >= world().primaries.size()) return CUDA_ERROR_INVALID_DEVICE;
  auto* const created = new Context{};
  created->device = device;
  created->id = ++world().last_id;
  world().contexts.insert(created);
  made(Kind::context);
  here().current.push_back(created);
  *context = reinterpret_cast<CUcontext>(created);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxDestroy(CUcontext handle) {
  ENTER_EVEN_AFTER_A_FAULT("cuCtxDestroy");
  CUresult code = CUDA_SUCCESS;
  Context* const context = known(call, handle, code);
  if (!context) return code;
  const auto& primaries = world().primaries;
  if (std::find(primaries.begin(), primaries.end(), context) != primaries.end()) {
    return violation(call, "a primary context is released, not destroyed", CUDA_ERROR_INVALID_CONTEXT);
  }
  context->destroyed = true;
  ended(Kind::context);
  if (!here().current.empty() && here().current.back() == context) here().current.pop_back();
  const auto streams = world().streams;
  for (Stream* stream : streams) {
    if (stream->context == context) end_stream(stream);
  }
  std::erase_if(world().events, [&](Event* event) {
    if (event->context != context) return false;
    ended(Kind::event);
    return true;
  });
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext* context) {
  ENTER_EVEN_AFTER_A_FAULT("cuCtxGetCurrent");
  *context = here().current.empty() ? nullptr : reinterpret_cast<CUcontext>(here().current.back());
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext handle) {
  ENTER_EVEN_AFTER_A_FAULT("cuCtxSetCurrent");
  CUresult code = CUDA_SUCCESS;
  Context* const context = handle ? known(call, handle, code) : nullptr;
  if (handle && !context) return code;
  if (!here().current.empty()) here().current.pop_back();
  if (context) here().current.push_back(context);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext handle) {
  ENTER_EVEN_AFTER_A_FAULT("cuCtxPushCurrent");
  CUresult code = CUDA_SUCCESS;
  Context* const context = known(call, handle, code);
  if (!context) return code;
  here().current.push_back(context);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext* context) {
  ENTER_EVEN_AFTER_A_FAULT("cuCtxPopCurrent");
  if (here().current.empty()) return violation(call, "no context is current", CUDA_ERROR_INVALID_CONTEXT);
  *context = reinterpret_cast<CUcontext>(here().current.back());
  here().current.pop_back();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice* device) {
  ENTER_IN_CONTEXT("cuCtxGetDevice");
  *device = here().current.back()->device;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetId(CUcontext handle, unsigned long long* id) {
  ENTER_EVEN_AFTER_A_FAULT("cuCtxGetId");
  CUresult code = CUDA_SUCCESS;
  const Context* const context = known(call, handle, code);
  if (!context) return code;
  *id = context->id;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  ENTER_EVEN_AFTER_A_FAULT("cuThreadExchangeStreamCaptureMode");
  std::swap(*mode, here().capture_mode);
  return CUDA_SUCCESS;
}

}  // extern "C"
