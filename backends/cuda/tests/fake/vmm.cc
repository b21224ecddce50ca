// SPDX-License-Identifier: Apache-2.0
// Physical handles, reserved addresses, and mappings of the ones at the others.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "handles.hpp"
#include "world.hpp"

using namespace fake;

namespace {

/// The reservation that holds all of these addresses, or null.
Range* range_around(CUdeviceptr address, std::size_t bytes, CUdeviceptr& begin) {
  auto next = world().ranges.upper_bound(address);
  if (next == world().ranges.begin()) return nullptr;
  --next;
  begin = next->first;
  const std::size_t offset = address - begin;
  return offset < next->second.size && bytes <= next->second.size - offset ? &next->second : nullptr;
}

/// The mappings that fill these addresses exactly; empty when they do not.
std::vector<MemoryRef> mappings_of(CUdeviceptr address, std::size_t bytes) {
  std::vector<MemoryRef> all;
  for (std::size_t covered = 0; covered < bytes;) {
    const auto found = world().allocations.find(address + covered);
    if (found == world().allocations.end() || !found->second->mapped || found->second->size > bytes - covered)
      return {};
    all.push_back(found->second);
    covered += found->second->size;
  }
  return all;
}

void lay_bare(CUdeviceptr address, std::size_t bytes) {
  mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
       0);
}

}  // namespace

namespace fake {

CUmemGenericAllocationHandle add_handle(const Handle& handle) {
  const auto id = ++world().last_id;
  world().handles[id] = handle;
  world().used[static_cast<std::size_t>(handle.device)] += handle.size;
  made(Kind::handle);
  return id;
}

Handle* handle_of(const char* call, CUmemGenericAllocationHandle id) {
  const auto found = world().handles.find(id);
  if (found != world().handles.end() && found->second.owners != 0) return &found->second;
  violation(call, "not a handle, or released");
  return nullptr;
}

void drop_unused(CUmemGenericAllocationHandle id) {
  const auto found = world().handles.find(id);
  if (found->second.owners != 0 || found->second.mappings != 0) return;
  close(found->second.fd);
  world().used[static_cast<std::size_t>(found->second.device)] -= found->second.size;
  world().handles.erase(found);
  ended(Kind::handle);
}

}  // namespace fake

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
  const int device = properties->location.id;
  if (bytes == 0 || bytes % granularity || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return violation(call, "wrong size or properties");
  }
  if (device < 0 || static_cast<std::size_t>(device) >= world().primaries.size()) return CUDA_ERROR_INVALID_DEVICE;
  if (bytes > total_bytes - (total_bytes / 16) - world().used[static_cast<std::size_t>(device)]) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const int fd = memfd_create(("fakecuda" + std::to_string(device)).c_str(), MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    if (fd >= 0) close(fd);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const bool exportable = properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  *handle = add_handle({fd, bytes, device, exportable, 1, 0});
  return CUDA_SUCCESS;
}

/// The memory stays while it is mapped.
CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle id) {
  ENTER("cuMemRelease");
  Handle* const handle = handle_of(call, id);
  if (!handle) return CUDA_ERROR_INVALID_VALUE;
  --handle->owners;
  drop_unused(id);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                        CUmemGenericAllocationHandle id) {
  ENTER("cuMemGetAllocationPropertiesFromHandle");
  const Handle* const handle = handle_of(call, id);
  if (!handle) return CUDA_ERROR_INVALID_VALUE;
  *properties = {};
  properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties->location.id = handle->device;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr,
                                     unsigned long long) {
  ENTER("cuMemAddressReserve");
  if (bytes == 0 || bytes % granularity || (alignment & (alignment - 1))) {
    return violation(call, "wrong size or alignment");
  }
  const std::size_t step = std::max(alignment, granularity);
  void* pages = mmap(nullptr, bytes + step, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto begin = reinterpret_cast<CUdeviceptr>(pages);
  *address = (begin + step - 1) / step * step;
  if (*address != begin) munmap(pages, *address - begin);
  if (const auto rest = begin + step - *address) munmap(reinterpret_cast<void*>(*address + bytes), rest);
  world().ranges[*address] = {bytes};
  made(Kind::range);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  ENTER("cuMemAddressFree");
  const auto found = world().ranges.find(address);
  if (found == world().ranges.end() || found->second.size != bytes) {
    return violation(call, std::to_string(bytes) + " addresses from " + hex(address) + " are not a reservation");
  }
  const auto mapped = world().allocations.lower_bound(address);
  if (mapped != world().allocations.end() && mapped->first < address + bytes) {
    return violation(call, "memory is still mapped at " + hex(mapped->first));
  }
  if (!found->second.keep) munmap(reinterpret_cast<void*>(address), bytes);
  world().ranges.erase(found);
  ended(Kind::range);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle id,
                          unsigned long long) {
  ENTER("cuMemMap");
  Handle* const handle = handle_of(call, id);
  if (!handle) return CUDA_ERROR_INVALID_VALUE;
  if (offset || bytes != handle->size) return CUDA_ERROR_INVALID_VALUE;  // a handle is mapped whole; its size may lie
  CUdeviceptr begin = 0;
  if (!range_around(address, bytes, begin) || (address - begin) % granularity) {
    return violation(call, std::to_string(bytes) + " bytes from " + hex(address) + " are not reserved");
  }
  const auto next = world().allocations.lower_bound(address);
  const auto before = memory_at(address);
  if (before || (next != world().allocations.end() && next->first < address + bytes)) {
    return violation(call, "memory is mapped already at " + hex(address));
  }
  if (mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, handle->fd, 0) == MAP_FAILED) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  ++handle->mappings;
  auto memory = std::make_shared<Memory>();
  memory->address = address;
  memory->size = bytes;
  memory->device = handle->device;
  memory->mapped = true;
  world().mappings[address] = id;
  world().allocations[address] = std::move(memory);
  made(Kind::mapping);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr address, size_t bytes) {
  ENTER("cuMemUnmap");
  const auto all = mappings_of(address, bytes);
  if (all.empty()) {
    return violation(call, std::to_string(bytes) + " bytes from " + hex(address) + " are not what was mapped");
  }
  for (const MemoryRef& memory : all) {
    check_uses(call, *memory, memory->uses, host_now());
    if (memory.use_count() == 2) {
      lay_bare(memory->address, memory->size);
    } else if (CUdeviceptr begin = 0; Range* range = range_around(memory->address, memory->size, begin)) {
      range->keep = true;
    }
    const auto mapping = world().mappings.find(memory->address);
    --world().handles.at(mapping->second).mappings;
    drop_unused(mapping->second);
    world().mappings.erase(mapping);
    remove(call, memory);
    ended(Kind::mapping);
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access, size_t count) {
  ENTER("cuMemSetAccess");
  const auto all = mappings_of(address, bytes);
  if (all.empty()) {
    return violation(call, std::to_string(bytes) + " bytes from " + hex(address) + " are not mapped");
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return violation(call, "not for a device");
    const bool writes = access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    for (const MemoryRef& memory : all) memory->access[access[i].location.id] = writes;
  }
  return mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE) == 0 ? CUDA_SUCCESS
                                                                                        : CUDA_ERROR_INVALID_VALUE;
}

}  // extern "C"
