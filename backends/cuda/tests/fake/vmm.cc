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

/// Why the driver refuses to map, unmap or open these addresses, whatever is there; empty when it does not.
std::string misplaced(CUdeviceptr address, std::size_t bytes) {
  const std::string text = std::to_string(bytes) + " bytes from " + hex(address);
  if (address % granularity || bytes % granularity || bytes == 0) return text + " are not whole granules";
  CUdeviceptr begin = 0;
  return range_around(address, bytes, begin) ? "" : text + " are not reserved";
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
                             unsigned long long flags) {
  ENTER("cuMemCreate");
  const int device = properties->location.id;
  if (flags != 0 || bytes == 0 || bytes % granularity || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return violation(call, "wrong size or properties");
  }
  if (device < 0 || static_cast<std::size_t>(device) >= world().primaries.size()) return CUDA_ERROR_INVALID_DEVICE;
  if (!fits(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  const bool exportable = properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  std::size_t begin = 0;
  const int fd = make_file(device, bytes, exportable, begin);
  if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = add_handle({fd, bytes, device, exportable, false, 1, 0, begin});
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
  if (handle->exportable) properties->requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* id, void* address) {
  ENTER("cuMemRetainAllocationHandle");
  const auto found = world().mappings.find(reinterpret_cast<CUdeviceptr>(address));
  if (found == world().mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  *id = found->second;
  ++world().handles.at(*id).owners;
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
  if (const auto why = misplaced(address, bytes); !why.empty()) return violation(call, why);
  if (offset != 0) return violation(call, "a handle is mapped from its beginning");
  if (bytes != handle->size) {  // a stranger's size may lie
    return handle->imported ? CUDA_ERROR_INVALID_VALUE : violation(call, "a handle is mapped whole");
  }
  const auto next = world().allocations.lower_bound(address);
  const auto before = memory_at(address);
  if (before || (next != world().allocations.end() && next->first < address + bytes)) {
    return violation(call, "memory is mapped already at " + hex(before ? address : next->first));
  }
  if (mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, handle->fd,
           static_cast<off_t>(handle->begin)) == MAP_FAILED) {
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
  if (const auto why = misplaced(address, bytes); !why.empty()) return violation(call, why);
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

CUresult CUDAAPI cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address) {
  ENTER("cuMemGetAccess");
  const MemoryRef memory = memory_at(address);
  if (!memory || !memory->mapped) return CUDA_ERROR_INVALID_VALUE;
  const auto found = memory->access.find(location->id);
  *flags = found == memory->access.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE
           : found->second               ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                         : CU_MEM_ACCESS_FLAGS_PROT_READ;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access, size_t count) {
  ENTER("cuMemSetAccess");
  if (const auto why = misplaced(address, bytes); !why.empty()) return violation(call, why);
  const auto all = mappings_of(address, bytes);
  if (all.empty()) {
    return violation(call, std::to_string(bytes) + " bytes from " + hex(address) + " are not what was mapped");
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [location, flags] = access[i];
    if (location.type != CU_MEM_LOCATION_TYPE_DEVICE || location.id < 0 ||
        static_cast<std::size_t>(location.id) >= world().primaries.size()) {
      return violation(call, "not for a device", CUDA_ERROR_INVALID_DEVICE);
    }
    if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
        flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
      return violation(call, "access of no kind");
    }
    for (const MemoryRef& memory : all) {
      if (flags == CU_MEM_ACCESS_FLAGS_PROT_NONE) {
        memory->access.erase(location.id);
      } else {
        memory->access[location.id] = flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      }
    }
  }
  for (const MemoryRef& memory : all) {
    int protection = PROT_NONE;
    for (const auto& [device, writes] : memory->access) protection |= writes ? PROT_READ | PROT_WRITE : PROT_READ;
    if (mprotect(reinterpret_cast<void*>(memory->address), memory->size, protection) != 0) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  return CUDA_SUCCESS;
}

}  // extern "C"
