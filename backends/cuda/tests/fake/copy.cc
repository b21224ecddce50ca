// SPDX-License-Identifier: Apache-2.0
// Copies and fills.
#include "world.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

using namespace fake;

namespace {

template <class T>
CUresult set_memory(CUdeviceptr to, std::size_t pitch, T value, std::size_t width, std::size_t height, CUstream on) {
  if (to % sizeof(T) || pitch % sizeof(T)) return CUDA_ERROR_INVALID_VALUE;
  STREAM(on);
  const auto* target = allocation_at(to);
  if (target && target->second.type == CU_MEMORYTYPE_DEVICE && !target->second.managed &&
      stream->context != world().primaries[static_cast<std::size_t>(target->second.device)]) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  push(stream, [=] {
    for (std::size_t row = 0; row < height; ++row) {
      std::fill_n(reinterpret_cast<T*>(to + row * pitch), width, value);
    }
  });
  return CUDA_SUCCESS;
}
}  // namespace

extern "C" {

CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream on) {
  ENTER("cuMemcpyAsync");
  STREAM(on);
  const auto* source = allocation_at(from);
  const auto* target = allocation_at(to);
  if (source && target && source->second.type == CU_MEMORYTYPE_HOST && target->second.type == CU_MEMORYTYPE_HOST) {
    std::fprintf(stderr, "fake CUDA: a copy between host memories is synchronous\n");
    std::abort();
  }
  push(stream, [=] { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes); });
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes, CUstream on) {
  ENTER("cuMemcpyPeerAsync");
  STREAM(on);
  push(stream, [=] { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes); });
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream on) {
  ENTER("cuMemsetD8Async");
  return set_memory(to, 0, value, count, 1, on);
}
CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream on) {
  ENTER("cuMemsetD16Async");
  return set_memory(to, 0, value, count, 1, on);
}
CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream on) {
  ENTER("cuMemsetD32Async");
  return set_memory(to, 0, value, count, 1, on);
}
CUresult CUDAAPI cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height,
                                    CUstream on) {
  ENTER("cuMemsetD2D32Async");
  return set_memory(to, pitch, value, width, height, on);
}

}  // extern "C"
