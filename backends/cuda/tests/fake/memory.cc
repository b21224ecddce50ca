// SPDX-License-Identifier: Apache-2.0
// Memory that is allocated at once: of the device, of the host, managed. Who may touch which bytes, and for how long.
#include <sys/mman.h>

#include <algorithm>

#include "world.hpp"

using namespace fake;

namespace {

std::size_t whole_pages(std::size_t bytes) { return (bytes + page - 1) / page * page; }

// A page in front is nobody's, so that no allocation begins where another ends.
void* take_pages(std::size_t bytes) {
  const auto whole = page + whole_pages(bytes);
  void* memory = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  (void)mprotect(memory, page, PROT_NONE);
  return static_cast<std::byte*>(memory) + page;
}

void give_pages(CUdeviceptr address, std::size_t bytes) {
  munmap(reinterpret_cast<void*>(address - page), page + whole_pages(bytes));
}

// What is at an address that no allocation covers.
std::string absent(CUdeviceptr address) {
  const auto& gone = world().gone;
  auto next = gone.upper_bound(address);
  if (next != gone.begin() && address - std::prev(next)->first < (std::size_t{1} << 40)) {
    --next;
    return hex(address) + " is not allocated; memory at " + hex(next->first) + " was: " + next->second;
  }
  return hex(address) + " was never allocated";
}

}  // namespace

namespace fake {

Memory::~Memory() {
  if (pages)
    munmap(pages, pages_size);
  else if (!mapped && !registered && address)
    give_pages(address, size);
}

bool fits(int device, std::size_t bytes) {
  return bytes <= total_bytes - (total_bytes / 16) - world().used[static_cast<std::size_t>(device)];
}

CUresult allocate(CUdeviceptr* address, std::size_t bytes, CUmemorytype type, bool managed, int device, bool counts) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > 64 * total_bytes || (counts && !fits(device, bytes))) return CUDA_ERROR_OUT_OF_MEMORY;
  void* pages = take_pages(bytes);
  if (!pages) return CUDA_ERROR_OUT_OF_MEMORY;
  if (counts) world().used[static_cast<std::size_t>(device)] += bytes;
  auto memory = std::make_shared<Memory>();
  *address = memory->address = reinterpret_cast<CUdeviceptr>(pages);
  memory->size = bytes;
  memory->type = type;
  memory->managed = managed;
  memory->device = device;
  auto& gone = world().gone;
  gone.erase(gone.lower_bound(*address), gone.lower_bound(*address + bytes));
  world().allocations[*address] = std::move(memory);
  made(Kind::allocation);
  return CUDA_SUCCESS;
}

void remove(const char* call, const MemoryRef& memory) {
  world().gone[memory->address] = std::to_string(memory->size) + " bytes, ended by " + call;
  if (world().gone.size() > 1000) world().gone.erase(world().gone.begin());
  if (memory->mapped) {
    world().allocations.erase(memory->address);
    return;
  }
  if (memory->external) unmap_external(*memory);
  if (memory->shared) forget_shared(call, *memory);
  if (memory->type == CU_MEMORYTYPE_DEVICE && !memory->managed && !memory->pool && !memory->external)
    world().used[static_cast<std::size_t>(memory->device)] -= memory->size;
  ended(Kind::allocation);
  world().allocations.erase(memory->address);
}

void check_uses(const char* call, const Memory& memory, const std::map<Id, std::uint64_t>& uses, const Clock& end) {
  for (const auto& [stream, work] : uses) {
    if (end.covers(stream, work, world().observed)) continue;
    violation(call, std::to_string(memory.size) + " bytes at " + hex(memory.address) + " end before work " +
                        std::to_string(work) + " of stream " + std::to_string(stream) +
                        ", which uses them, is known to be over");
    return;
  }
}

Clock host_now() { return {{}, world().observed.now()}; }

namespace {

// As cuMemFree and cuMemFreeHost may, and do: everything that is on the device's streams by now. The program may not
// rely on it, so the host has seen nothing after it. Meanwhile nobody puts anything on a stream.
void wait_for_device(int device, Lock& lock) {
  std::vector<std::pair<Id, std::uint64_t>> pending;
  for (const Stream* stream : world().streams) {
    if (stream->context->device == device && stream->done < stream->issued)
      pending.emplace_back(stream->id, stream->issued);
  }
  const auto over = [&](const auto& one) {
    const auto& all = world().streams;
    return std::none_of(all.begin(), all.end(),
                        [&](const Stream* s) { return s->id == one.first && s->done < one.second; });
  };
  ++world().blocking_frees;
  changed().wait(lock, [&] { return std::all_of(pending.begin(), pending.end(), over); });
  --world().blocking_frees;
  changed().notify_all();
}

}  // namespace

CUresult release(const char* call, CUdeviceptr address, bool host, Lock& lock) {
  const auto found = world().allocations.find(address);
  if (found == world().allocations.end()) {
    const auto inside = memory_at(address);
    return violation(call, inside ? hex(address) + " is inside of memory at " + hex(inside->address) : absent(address));
  }
  const MemoryRef memory = found->second;
  if (memory->mapped) return violation(call, hex(address) + " is mapped, not allocated");
  if (memory->freeing) return violation(call, hex(address) + " is being freed already");
  if (host != (memory->type == CU_MEMORYTYPE_HOST))
    return violation(call, hex(address) + " is not memory of that kind");
  check_uses(call, *memory, memory->uses, host_now());
  memory->freeing = true;
  if (memory->pool) {
    if (memory->born && !world().observed.covers(memory->born_on, memory->born, host_now().host)) {
      violation(call, hex(address) + " is freed before its allocation in order of a stream is known to be over");
    }
    give_to_pool(*memory->pool, memory->size);
  } else {
    wait_for_device(memory->device, lock);
  }
  remove(call, memory);
  return CUDA_SUCCESS;
}

MemoryRef memory_at(CUdeviceptr address) {
  auto next = world().allocations.upper_bound(address);
  if (next == world().allocations.begin()) return nullptr;
  --next;
  return address - next->first < next->second->size ? next->second : nullptr;
}

CUresult touch(const char* call, const Context& context, CUdeviceptr at, std::size_t bytes, bool writes,
               std::vector<Use>& uses) {
  for (std::size_t covered = 0; covered < bytes;) {
    const MemoryRef memory = memory_at(at + covered);
    if (!memory) {
      return violation(call, covered ? std::to_string(bytes) + " bytes at " + hex(at) + " reach beyond the " +
                                           std::to_string(covered) + " that are there"
                                     : absent(at));
    }
    if (memory->mapped) {
      const auto access = memory->access.find(context.device);
      if (access == memory->access.end()) {
        return violation(call, hex(at) + " is mapped without access for device " + std::to_string(context.device));
      }
      if (writes && !access->second) return violation(call, hex(at) + " is mapped for reading only");
    }
    // Mapped handles in a row are one piece of memory; allocations beside each other are not.
    const std::size_t step = memory->size - (at + covered - memory->address);
    uses.push_back({memory, at + covered, at + std::min(bytes, covered + step), writes});
    if (step < bytes - covered && !memory->mapped) {
      return violation(call, std::to_string(bytes) + " bytes at " + hex(at) + " reach beyond memory at " +
                                 hex(memory->address) + " of " + std::to_string(memory->size));
    }
    covered += step;
  }
  return CUDA_SUCCESS;
}

}  // namespace fake

extern "C" {

/// Frees that wait for a device by now.
int fake_cuda_blocking_frees() {
  const Lock lock(lock_of_all());
  return world().blocking_frees;
}

CUresult CUDAAPI cuMemGetInfo(size_t* free, size_t* total) {
  ENTER_IN_CONTEXT("cuMemGetInfo");
  *total = total_bytes;
  *free = total_bytes - world().used[static_cast<std::size_t>(here().current.back()->device)];
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  ENTER_IN_CONTEXT("cuMemAlloc");
  UNSAFE();
  Context& context = *here().current.back();
  const auto refused = allocate(address, bytes, CU_MEMORYTYPE_DEVICE, false, context.device, true);
  if (refused == CUDA_SUCCESS) world().allocations.at(*address)->context = &context.base();
  return refused;
}
CUresult CUDAAPI cuMemFree(CUdeviceptr address) {
  ENTER_IN_CONTEXT("cuMemFree");
  UNSAFE();
  return release(call, address, false, lock);
}
CUresult CUDAAPI cuMemHostAlloc(void** memory, size_t bytes, unsigned int) {
  ENTER_IN_CONTEXT("cuMemHostAlloc");
  UNSAFE();
  CUdeviceptr address = 0;
  const auto result = allocate(&address, bytes, CU_MEMORYTYPE_HOST, false, here().current.back()->device, false);
  *memory = reinterpret_cast<void*>(address);
  return result;
}
CUresult CUDAAPI cuMemFreeHost(void* memory) {
  ENTER_IN_CONTEXT("cuMemFreeHost");
  UNSAFE();
  return release(call, reinterpret_cast<CUdeviceptr>(memory), true, lock);
}
/// The program's pages stay registered: nothing here ends that.
CUresult CUDAAPI cuMemHostRegister(void* memory, size_t bytes, unsigned int flags) {
  ENTER_IN_CONTEXT("cuMemHostRegister");
  UNSAFE();
  const auto address = reinterpret_cast<CUdeviceptr>(memory);
  if (flags != (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP) || address % page || bytes == 0 ||
      bytes % page)
    return violation(call, "not whole pages for all contexts and devices");
  for (std::size_t at = 0; at < bytes; at += page) {
    if (memory_at(address + at)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  auto pages = std::make_shared<Memory>();
  pages->address = address;
  pages->size = bytes;
  pages->type = CU_MEMORYTYPE_HOST;
  pages->device = here().current.back()->device;
  pages->registered = true;
  world().allocations[address] = std::move(pages);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr* address, void* memory, unsigned int) {
  ENTER_IN_CONTEXT("cuMemHostGetDevicePointer");
  const auto found = memory_at(reinterpret_cast<CUdeviceptr>(memory));
  if (!found || found->type != CU_MEMORYTYPE_HOST) return violation(call, "not page-locked memory");
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned int) {
  ENTER_IN_CONTEXT("cuMemAllocManaged");
  UNSAFE();
  return allocate(address, bytes, CU_MEMORYTYPE_DEVICE, true, here().current.back()->device, false);
}
CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr* base, size_t* size, CUdeviceptr address) {
  ENTER_IN_CONTEXT("cuMemGetAddressRange");
  const auto found = memory_at(address);
  if (!found) return CUDA_ERROR_NOT_FOUND;
  const bool plain = found->type == CU_MEMORYTYPE_DEVICE && !found->managed && !found->mapped && !found->pool;
  if (plain && found->device != here().current.back()->device) return CUDA_ERROR_NOT_FOUND;
  *base = found->address;
  *size = found->size;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  ENTER("cuPointerGetAttribute");
  const auto found = memory_at(address);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *static_cast<unsigned int*>(data) = found->type; break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *static_cast<unsigned int*>(data) = found->managed; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *static_cast<int*>(data) = found->device; break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *static_cast<CUdeviceptr*>(data) = address; break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *static_cast<CUdeviceptr*>(data) = found->address; break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *static_cast<std::size_t*>(data) = found->size; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

}  // extern "C"
