// SPDX-License-Identifier: Apache-2.0
// Copies and fills.
#include <algorithm>
#include <cstring>

#include "world.hpp"

using namespace fake;

namespace {

// Of `rows` times `width` elements, `pitch` bytes from row to row.
template <class T>
CUresult set_memory(const char* call, CUdeviceptr to, std::size_t pitch, T value, std::size_t width, std::size_t rows,
                    CUstream on) {
  STREAM(on);
  if (to % sizeof(T) || pitch % sizeof(T) || (rows > 1 && pitch < width * sizeof(T))) {
    return violation(call, "not aligned to its element, or rows overlap");
  }
  const std::size_t bytes = rows && width ? (rows - 1) * pitch + width * sizeof(T) : 0;
  Job job;
  job.call = call;
  if (const auto refused = touch(call, *stream->context, to, bytes, true, job.uses)) return refused;
  const auto target = memory_at(to);
  if (target && target->type == CU_MEMORYTYPE_DEVICE && !target->managed &&
      stream->context != world().primaries[static_cast<std::size_t>(target->device)]) {
    return violation(call, "memory of another context than the stream's");
  }
  job.run = [=](Stream&) {
    for (std::size_t row = 0; row < rows; ++row) std::fill_n(reinterpret_cast<T*>(to + row * pitch), width, value);
  };
  push(stream, std::move(job));
  return CUDA_SUCCESS;
}

CUresult copy_memory(const char* call, Stream* stream, CUdeviceptr to, const Context& target, CUdeviceptr from,
                     const Context& source, std::size_t bytes) {
  Job job;
  job.call = call;
  if (const auto refused = touch(call, target, to, bytes, true, job.uses)) return refused;
  if (const auto refused = touch(call, source, from, bytes, false, job.uses)) return refused;
  if (bytes && to < from + bytes && from < to + bytes) return violation(call, "source and target overlap");
  job.run = [=](Stream&) { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes); };
  push(stream, std::move(job));
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream on) {
  ENTER_IN_CONTEXT("cuMemcpyAsync");
  STREAM(on);
  const auto source = memory_at(from), target = memory_at(to);
  if (source && target && source->type == CU_MEMORYTYPE_HOST && target->type == CU_MEMORYTYPE_HOST) {
    violation(call, "a copy between host memories is made on the calling thread, which may not block");
  }
  // Mapped memory of another device is reached through that device.
  const auto side = [&](const MemoryRef& memory) -> const Context& {
    return memory && memory->mapped ? *world().primaries[static_cast<std::size_t>(memory->device)] : *stream->context;
  };
  return copy_memory(call, stream, to, side(target), from, side(source), bytes);
}

CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr to, CUcontext target, CUdeviceptr from, CUcontext source, size_t bytes,
                                   CUstream on) {
  ENTER_IN_CONTEXT("cuMemcpyPeerAsync");
  STREAM(on);
  for (CUcontext each : {target, source}) {
    auto* const context = reinterpret_cast<Context*>(each);
    if (!world().contexts.count(context) || context->destroyed) {
      return violation(call, "not a context, or destroyed", CUDA_ERROR_INVALID_CONTEXT);
    }
    if (context->fault) return context->fault;
  }
  return copy_memory(call, stream, to, *reinterpret_cast<Context*>(target), from, *reinterpret_cast<Context*>(source),
                     bytes);
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream on) {
  ENTER_IN_CONTEXT("cuMemsetD8Async");
  return set_memory(call, to, 0, value, count, 1, on);
}
CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream on) {
  ENTER_IN_CONTEXT("cuMemsetD16Async");
  return set_memory(call, to, 0, value, count, 1, on);
}
CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream on) {
  ENTER_IN_CONTEXT("cuMemsetD32Async");
  return set_memory(call, to, 0, value, count, 1, on);
}
CUresult CUDAAPI cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height,
                                    CUstream on) {
  ENTER_IN_CONTEXT("cuMemsetD2D32Async");
  return set_memory(call, to, pitch, value, width, height, on);
}

}  // extern "C"
