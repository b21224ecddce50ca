// SPDX-License-Identifier: Apache-2.0
// Memory that is allocated at once: of the device, of the host, managed. What is freed is unmapped.
#include "world.hpp"

#include <sys/mman.h>

using namespace fake;

namespace fake {

static void* take_pages(std::size_t bytes) {
  void* memory = mmap(nullptr, (bytes + page - 1) / page * page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

CUresult allocate(CUdeviceptr* address, std::size_t bytes, CUmemorytype type, bool managed, int device) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const bool counts = type == CU_MEMORYTYPE_DEVICE && !managed;
  auto& used = world().used[static_cast<std::size_t>(device)];
  if (bytes > 64 * total_bytes || (counts && bytes > total_bytes - (total_bytes / 16) - used)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  void* memory = take_pages(bytes);
  if (!memory) return CUDA_ERROR_OUT_OF_MEMORY;
  if (counts) used += bytes;
  *address = reinterpret_cast<CUdeviceptr>(memory);
  world().allocations[*address] = {bytes, type, managed, device, false};
  return CUDA_SUCCESS;
}

CUresult release(CUdeviceptr address) {
  const auto found = world().allocations.find(address);
  if (found == world().allocations.end() || found->second.mapped) return CUDA_ERROR_INVALID_VALUE;
  const Allocation gone = found->second;
  world().allocations.erase(found);
  if (gone.type == CU_MEMORYTYPE_DEVICE && !gone.managed)
    world().used[static_cast<std::size_t>(gone.device)] -= gone.size;
  munmap(reinterpret_cast<void*>(address), (gone.size + page - 1) / page * page);
  return CUDA_SUCCESS;
}

const std::pair<const CUdeviceptr, Allocation>* allocation_at(CUdeviceptr address) {
  auto next = world().allocations.upper_bound(address);
  if (next == world().allocations.begin()) return nullptr;
  --next;
  return address - next->first < next->second.size ? &*next : nullptr;
}

}  // namespace fake

extern "C" {

CUresult CUDAAPI cuMemGetInfo(size_t* free, size_t* total) {
  ENTER("cuMemGetInfo");
  NEED_CONTEXT();
  *total = total_bytes;
  *free = total_bytes - world().used[static_cast<std::size_t>(here().current.back()->device)];
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  ENTER("cuMemAlloc");
  NEED_CONTEXT();
  UNSAFE();
  return allocate(address, bytes, CU_MEMORYTYPE_DEVICE, false, here().current.back()->device);
}
CUresult CUDAAPI cuMemFree(CUdeviceptr address) {
  ENTER("cuMemFree");
  UNSAFE();
  return release(address);
}
CUresult CUDAAPI cuMemHostAlloc(void** memory, size_t bytes, unsigned int) {
  ENTER("cuMemHostAlloc");
  NEED_CONTEXT();
  UNSAFE();
  CUdeviceptr address = 0;
  const auto result = allocate(&address, bytes, CU_MEMORYTYPE_HOST, false, here().current.back()->device);
  *memory = reinterpret_cast<void*>(address);
  return result;
}
CUresult CUDAAPI cuMemFreeHost(void* memory) {
  ENTER("cuMemFreeHost");
  UNSAFE();
  return release(reinterpret_cast<CUdeviceptr>(memory));
}
CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr* address, void* memory, unsigned int) {
  ENTER("cuMemHostGetDevicePointer");
  NEED_CONTEXT();
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned int) {
  ENTER("cuMemAllocManaged");
  NEED_CONTEXT();
  UNSAFE();
  return allocate(address, bytes, CU_MEMORYTYPE_DEVICE, true, here().current.back()->device);
}
CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr* base, size_t* size, CUdeviceptr address) {
  ENTER("cuMemGetAddressRange");
  const auto* found = allocation_at(address);
  if (!found) return CUDA_ERROR_NOT_FOUND;
  *base = found->first;
  *size = found->second.size;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  ENTER("cuPointerGetAttribute");
  const auto* found = allocation_at(address);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *static_cast<unsigned int*>(data) = found->second.type; break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *static_cast<unsigned int*>(data) = found->second.managed; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *static_cast<int*>(data) = found->second.device; break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *static_cast<CUdeviceptr*>(data) = address; break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *static_cast<CUdeviceptr*>(data) = found->first; break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *static_cast<std::size_t*>(data) = found->second.size; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

}  // extern "C"
