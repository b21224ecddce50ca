// SPDX-License-Identifier: Apache-2.0
#include "pool_sharing.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

using namespace fake;

namespace fake {

struct SharedAllocation {
  std::atomic<std::uint64_t> serial, offset, size, imports;  // serial 0: free
};

struct SharedTable {
  std::atomic<std::uint64_t> last_serial, end;
  SharedAllocation entries[1000];
};

namespace {

constexpr std::size_t table_bytes = (sizeof(SharedTable) + page - 1) / page * page;
constexpr char name[] = "fakecudapool";

/// What a CUmemPoolPtrExportData holds.
struct Exported {
  char magic[8];
  std::uint64_t node, serial, index;
};
static_assert(sizeof(Exported) <= sizeof(CUmemPoolPtrExportData));

constexpr char magic[8] = {'f', 'a', 'k', 'e', 'p', 'o', 'o', 'l'};

std::uint64_t node_of(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 ? status.st_ino : 0;
}

bool map_table(Pool& pool) {
  pool.node = node_of(pool.fd);
  void* const pages = mmap(nullptr, table_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, pool.fd, 0);
  if (pages == MAP_FAILED) return false;
  pool.table = static_cast<SharedTable*>(pages);
  return true;
}

/// Memory at these bytes of the pool's file.
MemoryRef map_bytes(Pool& pool, SharedAllocation& entry) {
  const std::size_t bytes = (entry.size + page - 1) / page * page;
  void* const pages =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, pool.fd, static_cast<off_t>(entry.offset.load()));
  if (pages == MAP_FAILED) return nullptr;
  auto memory = std::make_shared<Memory>();
  memory->address = reinterpret_cast<CUdeviceptr>(pages);
  memory->size = entry.size;
  memory->device = pool.device;
  memory->pages = pages;
  memory->pages_size = bytes;
  memory->shared = &entry;
  auto& gone = world().gone;
  gone.erase(gone.lower_bound(memory->address), gone.lower_bound(memory->address + memory->size));
  world().allocations[memory->address] = memory;
  made(Kind::allocation);
  return memory;
}

Pool* find_pool(const char* call, CUmemoryPool handle) {
  auto* const pool = reinterpret_cast<Pool*>(handle);
  if (world().pools.count(pool)) return pool;
  violation(call, "not a memory pool, or destroyed");
  return nullptr;
}

SharedAllocation* find_entry(const Pool& pool, const CUmemPoolPtrExportData& data) {
  Exported exported;
  std::memcpy(&exported, data.reserved, sizeof exported);
  if (std::memcmp(exported.magic, magic, sizeof magic) != 0 || exported.node != pool.node) return nullptr;
  if (exported.index >= std::size(pool.table->entries)) return nullptr;
  SharedAllocation& entry = pool.table->entries[exported.index];
  return exported.serial != 0 && entry.serial == exported.serial ? &entry : nullptr;
}

}  // namespace

CUresult make_shareable(Pool& pool) {
  pool.fd = memfd_create((name + std::to_string(pool.device)).c_str(), MFD_CLOEXEC);
  if (pool.fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  if (ftruncate(pool.fd, static_cast<off_t>(table_bytes + 16 * total_bytes)) != 0 || !map_table(pool)) {
    end_sharing(pool);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  pool.table->end = table_bytes;
  return CUDA_SUCCESS;
}

CUresult allocate_shared(Pool& pool, CUdeviceptr* address, std::size_t bytes) {
  auto& entries = pool.table->entries;
  auto* const entry = std::find_if(std::begin(entries), std::end(entries), [](const auto& e) { return e.serial == 0; });
  if (entry == std::end(entries)) return CUDA_ERROR_OUT_OF_MEMORY;
  entry->offset = pool.table->end.fetch_add((bytes + page - 1) / page * page);
  entry->size = bytes;
  entry->imports = 0;
  const MemoryRef memory = map_bytes(pool, *entry);
  if (!memory) return CUDA_ERROR_OUT_OF_MEMORY;
  entry->serial = ++pool.table->last_serial;
  *address = memory->address;
  return CUDA_SUCCESS;
}

void end_sharing(Pool& pool) {
  if (pool.fd >= 0) close(pool.fd);
  pool.fd = -1;  // the table stays: memory of the pool still points into it
}

void forget_shared(const char* call, const Memory& memory) {
  if (memory.pool->imported) {
    --memory.shared->imports;
    return;
  }
  if (memory.shared->imports != 0) violation(call, hex(memory.address) + " is freed before those that imported it");
  memory.shared->serial = 0;
}

}  // namespace fake

extern "C" {

CUresult CUDAAPI cuMemPoolExportToShareableHandle(void* fd, CUmemoryPool handle, CUmemAllocationHandleType type,
                                                  unsigned long long flags) {
  ENTER("cuMemPoolExportToShareableHandle");
  Pool* const pool = find_pool(call, handle);
  if (!pool || flags != 0 || pool->fd < 0 || pool->imported) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_INVALID_VALUE;
  const int copy = dup(pool->fd);
  if (copy < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(fd) = copy;
  pool->exported = true;
  return CUDA_SUCCESS;
}

/// What the file is cannot be trusted. The descriptor stays the caller's.
CUresult CUDAAPI cuMemPoolImportFromShareableHandle(CUmemoryPool* handle, void* os_handle,
                                                    CUmemAllocationHandleType type, unsigned long long flags) {
  ENTER("cuMemPoolImportFromShareableHandle");
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const int fd = static_cast<int>(reinterpret_cast<std::intptr_t>(os_handle));
  char text[64] = {};
  if (readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), text, sizeof text - 1) < 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const char* const found = std::strstr(text, name);
  if (!found) return CUDA_ERROR_UNKNOWN;
  auto pool = std::make_unique<Pool>();
  pool->device = atoi(found + std::strlen(name));
  pool->imported = true;
  pool->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (pool->fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  if (!map_table(*pool)) {
    end_sharing(*pool);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  world().pools.insert(pool.get());
  made(Kind::pool);
  *handle = reinterpret_cast<CUmemoryPool>(pool.release());
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolExportPointer(CUmemPoolPtrExportData* data, CUdeviceptr address) {
  ENTER("cuMemPoolExportPointer");
  const auto found = world().allocations.find(address);
  if (found == world().allocations.end() || !found->second->shared || found->second->freeing ||
      found->second->pool->imported || !found->second->pool->exported)
    return CUDA_ERROR_INVALID_VALUE;
  const Memory& memory = *found->second;
  Exported exported{};
  std::memcpy(exported.magic, magic, sizeof magic);
  exported.node = memory.pool->node;
  exported.serial = memory.shared->serial;
  exported.index = static_cast<std::uint64_t>(memory.shared - memory.pool->table->entries);
  *data = {};
  std::memcpy(data->reserved, &exported, sizeof exported);
  return CUDA_SUCCESS;
}

/// As drivers do, gives the same address for the same memory, without counting: the first free ends it for all.
CUresult CUDAAPI cuMemPoolImportPointer(CUdeviceptr* address, CUmemoryPool handle, CUmemPoolPtrExportData* data) {
  ENTER("cuMemPoolImportPointer");
  Pool* const pool = find_pool(call, handle);
  if (!pool || !pool->imported) return CUDA_ERROR_INVALID_VALUE;
  SharedAllocation* const entry = find_entry(*pool, *data);
  if (!entry) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& [at, memory] : world().allocations) {
    if (!memory->shared || memory->shared->serial != entry->serial || memory->freeing || !memory->pool->imported ||
        memory->pool->node != pool->node)
      continue;
    violation(call, "memory at " + hex(at) + " is imported already, and its first free will end it for all");
    *address = at;
    return CUDA_SUCCESS;
  }
  const MemoryRef memory = map_bytes(*pool, *entry);
  if (!memory) return CUDA_ERROR_OUT_OF_MEMORY;
  memory->pool = pool;
  ++entry->imports;
  pool->used += memory->size;
  *address = memory->address;
  return CUDA_SUCCESS;
}

}  // extern "C"
