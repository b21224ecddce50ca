// SPDX-License-Identifier: Apache-2.0
// Memory pools: allocated and freed in stream order.
#include "world.hpp"

using namespace fake;

namespace {

Pool* pool_of(const char* call, CUmemoryPool handle) {
  auto* pool = reinterpret_cast<Pool*>(handle);
  if (world().pools.count(pool)) return pool;
  violation(call, "not a memory pool, or destroyed");
  return nullptr;
}

// The memory may be used on the stream at once, elsewhere after that piece of its work.
CUresult allocate_on(const char* call, Stream* stream, CUdeviceptr* address, std::size_t bytes, int device) {
  if (const auto refused = allocate(address, bytes, CU_MEMORYTYPE_DEVICE, false, device)) return refused;
  Job job;
  job.call = call;
  push(stream, std::move(job));
  Memory& memory = *world().allocations.at(*address);
  memory.born_on = stream->id;
  memory.born = stream->issued;
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  ENTER("cuMemPoolCreate");
  const int device = properties->location.id;
  if (device < 0 || static_cast<std::size_t>(device) >= world().primaries.size()) return CUDA_ERROR_INVALID_VALUE;
  auto* const created = new Pool{device, properties->maxSize};
  world().pools.insert(created);
  made(Kind::pool);
  *pool = reinterpret_cast<CUmemoryPool>(created);
  return CUDA_SUCCESS;
}

/// Returns at once; what was allocated from it stays valid.
CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool handle) {
  ENTER("cuMemPoolDestroy");
  Pool* const pool = pool_of(call, handle);
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  world().pools.erase(pool);
  world().ended_pools.insert(pool);
  ended(Kind::pool);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute, void*) {
  ENTER("cuMemPoolSetAttribute");
  return pool_of(call, handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool handle, CUstream on) {
  ENTER_IN_CONTEXT("cuMemAllocFromPoolAsync");
  STREAM(on);
  const Pool* const pool = pool_of(call, handle);
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  if (pool->limit && bytes > pool->limit) return CUDA_ERROR_OUT_OF_MEMORY;
  return allocate_on(call, stream, address, bytes, pool->device);
}

CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream on) {
  ENTER_IN_CONTEXT("cuMemAllocAsync");
  STREAM(on);
  return allocate_on(call, stream, address, bytes, stream->context->device);
}

/// Everything on other streams that uses the memory must come before in their order, or be known complete.
CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr address, CUstream on) {
  ENTER_IN_CONTEXT("cuMemFreeAsync");
  STREAM(on);
  const auto found = world().allocations.find(address);
  if (found == world().allocations.end() || found->second->mapped || found->second->type == CU_MEMORYTYPE_HOST) {
    return violation(call, hex(address) + " is not the beginning of memory that can be freed so");
  }
  const MemoryRef memory = found->second;
  if (memory->freeing) return violation(call, hex(address) + " is freed twice");
  memory->freeing = true;
  Job job;
  job.call = call;
  job.after = [call, memory, owed = memory->uses, epoch = stream->context->epoch](Stream& self) {
    if (self.context->epoch == epoch) check_uses(call, *memory, owed, self.clock);
    remove(call, memory);
  };
  push(stream, std::move(job));
  return CUDA_SUCCESS;
}

}  // extern "C"
