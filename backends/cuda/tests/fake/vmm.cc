// SPDX-License-Identifier: Apache-2.0
// Physical handles, reserved addresses, mappings, and handles that travel as file descriptors.
#include "world.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

using namespace fake;

namespace {

void drop(CUmemGenericAllocationHandle id) {
  const auto found = world().handles.find(id);
  if (found == world().handles.end() || --found->second.references != 0) return;
  if (found->second.fd >= 0) close(found->second.fd);
  world().used[static_cast<std::size_t>(found->second.device)] -= found->second.size;
  world().handles.erase(found);
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp*,
                                               CUmemAllocationGranularity_flags) {
  ENTER("cuMemGetAllocationGranularity");
  *bytes = granularity;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* properties,
                             unsigned long long) {
  ENTER("cuMemCreate");
  if (bytes == 0 || bytes % granularity) return CUDA_ERROR_INVALID_VALUE;
  auto& used = world().used[static_cast<std::size_t>(properties->location.id)];
  if (bytes > total_bytes - (total_bytes / 16) - used) return CUDA_ERROR_OUT_OF_MEMORY;
  const int fd = memfd_create(("fakecuda" + std::to_string(properties->location.id)).c_str(), MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  used += bytes;
  *handle = ++world().last_id;
  world().handles[*handle] = {fd, bytes, properties->location.id,
                              properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1};
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle) {
  ENTER("cuMemRelease");
  if (!world().handles.count(handle)) return CUDA_ERROR_INVALID_VALUE;
  drop(handle);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                        CUmemGenericAllocationHandle handle) {
  ENTER("cuMemGetAllocationPropertiesFromHandle");
  const auto found = world().handles.find(handle);
  if (found == world().handles.end()) return CUDA_ERROR_INVALID_VALUE;
  *properties = {};
  properties->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties->location.id = found->second.device;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  ENTER("cuMemAddressReserve");
  void* memory = mmap(nullptr, bytes + granularity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto begin = reinterpret_cast<CUdeviceptr>(memory);
  *address = (begin + granularity - 1) / granularity * granularity;
  if (*address != begin) munmap(memory, *address - begin);
  if (const auto rest = begin + granularity - *address) munmap(reinterpret_cast<void*>(*address + bytes), rest);
  world().ranges[*address] = {bytes};
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  ENTER("cuMemAddressFree");
  const auto found = world().ranges.find(address);
  if (found == world().ranges.end() || found->second.size != bytes) return CUDA_ERROR_INVALID_VALUE;
  munmap(reinterpret_cast<void*>(address), bytes);
  world().ranges.erase(found);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                          unsigned long long) {
  ENTER("cuMemMap");
  const auto found = world().handles.find(handle);
  if (found == world().handles.end() || offset || bytes != found->second.size) return CUDA_ERROR_INVALID_VALUE;
  if (mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, found->second.fd, 0) ==
      MAP_FAILED) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  ++found->second.references;
  world().mappings[address] = handle;
  world().allocations[address] = {bytes, CU_MEMORYTYPE_DEVICE, false, found->second.device, true};
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemUnmap(CUdeviceptr address, size_t bytes) {
  ENTER("cuMemUnmap");
  const auto found = world().mappings.find(address);
  if (found == world().mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
       0);
  drop(found->second);
  world().mappings.erase(found);
  world().allocations.erase(address);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access, size_t) {
  ENTER("cuMemSetAccess");
  const int mode = access->flags == CU_MEM_ACCESS_FLAGS_PROT_READ ? PROT_READ : PROT_READ | PROT_WRITE;
  return mprotect(reinterpret_cast<void*>(address), bytes, mode) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult CUDAAPI cuMemExportToShareableHandle(void* fd, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType,
                                              unsigned long long) {
  ENTER("cuMemExportToShareableHandle");
  const auto found = world().handles.find(handle);
  if (found == world().handles.end() || !found->second.exportable) return CUDA_ERROR_INVALID_VALUE;
  const int copy = dup(found->second.fd);
  if (copy < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(fd) = copy;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* os_handle,
                                                CUmemAllocationHandleType) {
  ENTER("cuMemImportFromShareableHandle");
  const int fd = static_cast<int>(reinterpret_cast<std::intptr_t>(os_handle));
  char name[64] = {};
  struct stat status;
  if (readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof name - 1) < 0 ||
      !std::strstr(name, "fakecuda") || fstat(fd, &status) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (copy < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *handle = ++world().last_id;
  const auto size = static_cast<std::size_t>(status.st_size);
  const int device = atoi(std::strstr(name, "fakecuda") + 8);
  world().used[static_cast<std::size_t>(device)] += size;
  world().handles[*handle] = {copy, size, device, true, 1};
  return CUDA_SUCCESS;
}

}  // extern "C"
