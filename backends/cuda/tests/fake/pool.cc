// SPDX-License-Identifier: Apache-2.0
// Memory pools: allocated and freed in stream order, and kept for later.
#include <algorithm>

#include "pool_sharing.hpp"

using namespace fake;

namespace {

Pool* pool_of(const char* call, CUmemoryPool handle) {
  auto* pool = reinterpret_cast<Pool*>(handle);
  if (world().pools.count(pool)) return pool;
  violation(call, "not a memory pool, or destroyed");
  return nullptr;
}

// What was freed and the host has not seen freed cannot go back to the device. Work of streams that are gone is over.
std::size_t unseen_bytes(Pool& pool) {
  std::erase_if(pool.unseen, [](const Freed& freed) {
    const auto& all = world().streams;
    const bool gone = std::none_of(all.begin(), all.end(), [&](const Stream* s) { return s->id == freed.stream; });
    return gone || world().observed.covers(freed.stream, freed.work, world().observed.now());
  });
  std::size_t bytes = 0;
  for (const Freed& freed : pool.unseen) bytes += freed.bytes;
  return bytes;
}

bool frees_to_see(Pool& pool) {
  return unseen_bytes(pool) != 0 || std::ranges::any_of(world().allocations, [&pool](const auto& one) {
           return one.second->pool == &pool && one.second->freeing;
         });
}

// Memory that other processes may have goes back with the pool alone.
void shrink(Pool& pool, std::uint64_t keep) {
  if (pool.fd >= 0) return;
  const std::size_t held = pool.used + unseen_bytes(pool);
  const std::size_t least = std::max<std::uint64_t>((held + granularity - 1) / granularity * granularity, keep);
  if (least >= pool.reserved) return;
  world().used[static_cast<std::size_t>(pool.device)] -= pool.reserved - least;
  pool.reserved = least;
}

bool grow(Pool& pool, std::size_t bytes) {
  const std::size_t wanted = pool.used + bytes;
  if (pool.limit && wanted > pool.limit) return false;
  if (wanted <= pool.reserved) return true;
  const std::size_t more = (wanted - pool.reserved + granularity - 1) / granularity * granularity;
  if (!fits(pool.device, more)) return false;
  world().used[static_cast<std::size_t>(pool.device)] += more;
  pool.reserved += more;
  pool.most_reserved = std::max(pool.most_reserved, pool.reserved);
  return true;
}

// The memory may be used on the stream at once, elsewhere after that piece of its work.
CUresult allocate_on(const char* call, Stream* stream, CUdeviceptr* address, std::size_t bytes, Pool& pool) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > 64 * total_bytes || !grow(pool, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto refused = pool.fd >= 0 ? allocate_shared(pool, address, bytes)
                                    : allocate(address, bytes, CU_MEMORYTYPE_DEVICE, false, pool.device, false);
  if (refused) return refused;
  pool.used += bytes;
  pool.most_used = std::max(pool.most_used, pool.used);
  Job job;
  job.call = call;
  push(stream, std::move(job));
  Memory& memory = *world().allocations.at(*address);
  memory.pool = &pool;
  memory.born_on = stream->id;
  memory.born = stream->issued;
  return CUDA_SUCCESS;
}

}  // namespace

namespace fake {

void give_to_pool(Pool& pool, std::size_t bytes) {
  pool.used -= bytes;
  if (pool.destroyed) shrink(pool, 0);
}

void give_to_pool(Pool& pool, std::size_t bytes, Id stream, std::uint64_t work) {
  if (!pool.destroyed) pool.unseen.push_back({stream, work, bytes});
  give_to_pool(pool, bytes);
}

void synchronized() {
  for (Pool* pool : world().pools) shrink(*pool, pool->threshold);
  for (Pool* pool : world().default_pools) shrink(*pool, pool->threshold);
}

}  // namespace fake

extern "C" {

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  ENTER("cuMemPoolCreate");
  const int device = properties->location.id;
  if (device < 0 || static_cast<std::size_t>(device) >= world().primaries.size()) return CUDA_ERROR_INVALID_VALUE;
  if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE &&
      properties->handleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_NOT_SUPPORTED;
  auto* const created = new Pool;
  created->device = device;
  created->limit = properties->maxSize;
  if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE) {
    if (const auto refused = make_shareable(*created)) {
      delete created;
      return refused;
    }
  }
  world().pools.insert(created);
  made(Kind::pool);
  *pool = reinterpret_cast<CUmemoryPool>(created);
  return CUDA_SUCCESS;
}

void fake_cuda_watch_ends(bool on) { watches_ends = on; }

/// Returns at once; what was allocated from it stays valid.
CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool handle) {
  ENTER("cuMemPoolDestroy");
  Pool* const pool = pool_of(call, handle);
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  if (watches_ends && ending_streams != 0) violation(call, "beside a cuStreamDestroy: real drivers were seen to crash");
  if (frees_to_see(*pool)) {
    violation(call, "with frees that the host has not seen: real drivers crash when two threads synchronize");
  }
  world().pools.erase(pool);
  world().ended_pools.insert(pool);
  pool->destroyed = true;
  pool->unseen.clear();
  end_sharing(*pool);
  shrink(*pool, 0);
  ended(Kind::pool);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  ENTER("cuMemPoolSetAttribute");
  Pool* const pool = pool_of(call, handle);
  if (!pool || attribute != CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) return CUDA_ERROR_INVALID_VALUE;
  pool->threshold = *static_cast<cuuint64_t*>(value);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  ENTER("cuMemPoolGetAttribute");
  const Pool* const pool = pool_of(call, handle);
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  auto& number = *static_cast<cuuint64_t*>(value);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: number = pool->threshold; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: number = pool->reserved; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: number = pool->most_reserved; break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: number = pool->used; break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: number = pool->most_used; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool handle, size_t keep) {
  ENTER("cuMemPoolTrimTo");
  Pool* const pool = pool_of(call, handle);
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  shrink(*pool, keep);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool handle, CUstream on) {
  ENTER_TO_WORK("cuMemAllocFromPoolAsync");
  UNSAFE();
  STREAM(on);
  Pool* const pool = pool_of(call, handle);
  if (pool && pool->imported) return violation(call, "an imported pool gives no memory");
  return pool ? allocate_on(call, stream, address, bytes, *pool) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream on) {
  ENTER_TO_WORK("cuMemAllocAsync");
  UNSAFE();
  STREAM(on);
  Pool& pool = *world().default_pools.at(static_cast<std::size_t>(stream->context->device));
  return allocate_on(call, stream, address, bytes, pool);
}

/// Everything on other streams that uses the memory must come before in their order, or be known complete.
CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr address, CUstream on) {
  ENTER_TO_WORK("cuMemFreeAsync");
  UNSAFE();
  STREAM(on);
  const auto found = world().allocations.find(address);
  if (found == world().allocations.end() || !found->second->pool) {
    return violation(call, hex(address) + " is not the beginning of memory of a pool");
  }
  const MemoryRef memory = found->second;
  if (memory->freeing) return violation(call, hex(address) + " is freed twice");
  memory->freeing = true;
  Job job;
  job.call = call;
  job.after = [call, memory, owed = memory->uses, epoch = stream->context->epoch()](Stream& self) {
    if (self.context->epoch() == epoch) {
      check_uses(call, *memory, owed, self.clock);
      if (memory->born && !self.clock.covers(memory->born_on, memory->born, world().observed)) {
        violation(call, hex(memory->address) + " is freed on a stream that is not ordered after its allocation");
      }
    }
    if (memory->pool) give_to_pool(*memory->pool, memory->size, self.id, self.done + 1);
    remove(call, memory);
  };
  push(stream, std::move(job));
  return CUDA_SUCCESS;
}

}  // extern "C"
