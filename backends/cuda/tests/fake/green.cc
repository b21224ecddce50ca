// SPDX-License-Identifier: Apache-2.0
// Green contexts: parts of a device's processors with streams of their own. Memory and faults are the primary
// context's.
#include "world.hpp"

using namespace fake;

namespace {

CUresult green_of(const char* call, CUgreenCtx handle, Context*& found) {
  found = reinterpret_cast<Context*>(handle);
  if (world().contexts.count(found) && found->whole && !found->destroyed) return CUDA_SUCCESS;
  return violation(call, "not a green context, or destroyed", CUDA_ERROR_INVALID_CONTEXT);
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuDeviceGetDevResource(CUdevice, CUdevResource* resource, CUdevResourceType type) {
  ENTER("cuDeviceGetDevResource");
  *resource = {};
  resource->type = type;
  resource->sm.smCount = 16;
  return CUDA_SUCCESS;
}

/// Halves, whatever is asked for.
CUresult CUDAAPI cuDevSmResourceSplitByCount(CUdevResource* parts, unsigned int* count, const CUdevResource* whole,
                                             CUdevResource* rest, unsigned int, unsigned int) {
  ENTER("cuDevSmResourceSplitByCount");
  *count = 1;
  *parts = *whole;
  parts->sm.smCount = whole->sm.smCount / 2;
  if (rest) *rest = *parts;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevResourceGenerateDesc(CUdevResourceDesc* description, CUdevResource*, unsigned int) {
  ENTER("cuDevResourceGenerateDesc");
  *description = nullptr;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGreenCtxCreate(CUgreenCtx* green, CUdevResourceDesc, CUdevice device, unsigned int) {
  ENTER("cuGreenCtxCreate");
  if (device < 0 || static_cast<std::size_t>(device) >= world().primaries.size()) return CUDA_ERROR_INVALID_DEVICE;
  auto* const created = new Context{};
  created->device = device;
  created->whole = world().primaries[static_cast<std::size_t>(device)];
  created->id = ++world().last_id;
  world().contexts.insert(created);
  made(Kind::context);
  *green = reinterpret_cast<CUgreenCtx>(created);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGreenCtxDestroy(CUgreenCtx handle) {
  ENTER("cuGreenCtxDestroy");
  Context* green = nullptr;
  if (const CUresult refused = green_of(call, handle, green)) return refused;
  green->destroyed = true;
  ended(Kind::context);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxFromGreenCtx(CUcontext* context, CUgreenCtx handle) {
  ENTER("cuCtxFromGreenCtx");
  Context* green = nullptr;
  if (const CUresult refused = green_of(call, handle, green)) return refused;
  *context = reinterpret_cast<CUcontext>(green);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx handle, unsigned int flags, int) {
  ENTER("cuGreenCtxStreamCreate");
  Context* green = nullptr;
  if (const CUresult refused = green_of(call, handle, green)) return refused;
  if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  *stream = reinterpret_cast<CUstream>(make_stream(green, false));
  return CUDA_SUCCESS;
}

/// Null for streams of other contexts.
CUresult CUDAAPI cuStreamGetGreenCtx(CUstream on, CUgreenCtx* green) {
  ENTER("cuStreamGetGreenCtx");
  STREAM_TO_ASK(on);
  *green = stream->context->whole ? reinterpret_cast<CUgreenCtx>(stream->context) : nullptr;
  return CUDA_SUCCESS;
}

}  // extern "C"
