// SPDX-License-Identifier: Apache-2.0
// Copies and fills.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "world.hpp"

using namespace fake;

namespace {

// Whose the memory is that only streams of its own context are sure to fill; null for all other.
const Context* owner_of(CUdeviceptr at) {
  const auto memory = memory_at(at);
  if (!memory || memory->type != CU_MEMORYTYPE_DEVICE || memory->managed) return nullptr;
  return memory->context ? memory->context : world().primaries[static_cast<std::size_t>(memory->device)];
}

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
  if (const Context* owner = owner_of(to); owner && owner != &stream->context->base()) {
    return violation(call, "memory of another context than the stream's");
  }
  job.run = [=](Stream&) {
    for (std::size_t row = 0; row < rows; ++row) std::fill_n(reinterpret_cast<T*>(to + row * pitch), width, value);
  };
  push(stream, std::move(job));
  return CUDA_SUCCESS;
}

constexpr std::size_t most_pitch = 0x7fffffff;

// One side of a copy of rectangles.
struct Side {
  CUdeviceptr at;
  std::size_t pitch, height;
  [[nodiscard]] CUdeviceptr row(std::size_t y, std::size_t z) const { return at + (z * height + y) * pitch; }
};

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
  ENTER_TO_WORK("cuMemcpyAsync");
  STREAM(on);
  const auto source = memory_at(from), target = memory_at(to);
  if (source && target && source->type == CU_MEMORYTYPE_HOST && target->type == CU_MEMORYTYPE_HOST) {
    violation(call, "a copy between host memories is made on the calling thread, which may not block");
  }
  for (CUdeviceptr at : {to, from}) {
    const Context* const owner = owner_of(at);
    if (owner && owner->device != stream->context->device) {
      return violation(call, "memory of another device than the stream's, which not every driver is known to take");
    }
  }
  return copy_memory(call, stream, to, *stream->context, from, *stream->context, bytes);
}

CUresult CUDAAPI cuMemcpy3DAsync(const CUDA_MEMCPY3D* what, CUstream on) {
  ENTER_TO_WORK("cuMemcpy3DAsync");
  STREAM(on);
  if (what->dstMemoryType != CU_MEMORYTYPE_UNIFIED || what->srcMemoryType != CU_MEMORYTYPE_UNIFIED ||
      what->srcXInBytes || what->srcY || what->srcZ || what->srcLOD || what->dstXInBytes || what->dstY || what->dstZ ||
      what->dstLOD) {
    return violation(call, "a form that the model does not know");
  }
  const Side target{what->dstDevice, what->dstPitch, what->dstHeight},
      source{what->srcDevice, what->srcPitch, what->srcHeight};
  bool host = true;
  for (const Side& side : {target, source}) {
    if (what->Height > 1 && side.pitch < what->WidthInBytes) return violation(call, "rows overlap");
    if (side.pitch > most_pitch) return violation(call, "the pitch is too large");
    if (what->Depth > 1 && side.height < what->Height) return violation(call, "planes overlap");
    const Context* const owner = owner_of(side.at);
    if (owner && owner->device != stream->context->device) return violation(call, "memory of another device");
    const auto memory = memory_at(side.at);
    host = host && memory && memory->type == CU_MEMORYTYPE_HOST;
  }
  if (host) violation(call, "a copy between host memories is made on the calling thread, which may not block");
  Job job;
  job.call = call;
  std::vector<std::pair<CUdeviceptr, CUdeviceptr>> rows;
  const std::size_t width = what->WidthInBytes;
  for (std::size_t z = 0; z < what->Depth; ++z) {
    for (std::size_t y = 0; y < what->Height; ++y) rows.emplace_back(target.row(y, z), source.row(y, z));
  }
  for (const auto& [to, from] : rows) {
    if (const auto refused = touch(call, *stream->context, to, width, true, job.uses)) return refused;
    if (const auto refused = touch(call, *stream->context, from, width, false, job.uses)) return refused;
  }
  job.run = [rows = std::move(rows), width](Stream&) {
    for (const auto& [to, from] : rows) std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), width);
  };
  push(stream, std::move(job));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr to, CUcontext target, CUdeviceptr from, CUcontext source, size_t bytes,
                                   CUstream on) {
  ENTER_TO_WORK("cuMemcpyPeerAsync");
  STREAM(on);
  for (CUcontext each : {target, source}) {
    auto* const context = reinterpret_cast<Context*>(each);
    if (!world().contexts.count(context) || context->destroyed) {
      return violation(call, "not a context, or destroyed", CUDA_ERROR_INVALID_CONTEXT);
    }
    if (const CUresult answer = context->answer()) return answer;
  }
  return copy_memory(call, stream, to, *reinterpret_cast<Context*>(target), from, *reinterpret_cast<Context*>(source),
                     bytes);
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream on) {
  ENTER_TO_WORK("cuMemsetD8Async");
  return set_memory(call, to, 0, value, count, 1, on);
}
CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream on) {
  ENTER_TO_WORK("cuMemsetD16Async");
  return set_memory(call, to, 0, value, count, 1, on);
}
CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream on) {
  ENTER_TO_WORK("cuMemsetD32Async");
  return set_memory(call, to, 0, value, count, 1, on);
}
CUresult CUDAAPI cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height,
                                    CUstream on) {
  ENTER_TO_WORK("cuMemsetD2D32Async");
  return set_memory(call, to, pitch, value, width, height, on);
}

}  // extern "C"
