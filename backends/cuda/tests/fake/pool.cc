// SPDX-License-Identifier: Apache-2.0
// Memory pools: allocated and freed in stream order.
#include "world.hpp"

using namespace fake;

extern "C" {

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  ENTER("cuMemPoolCreate");
  world().pools.push_back(new Pool{properties->location.id, properties->maxSize});
  *pool = reinterpret_cast<CUmemoryPool>(world().pools.back());
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool) {
  ENTER("cuMemPoolDestroy");
  return CUDA_SUCCESS;  // its allocations may still count on it
}
CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void*) {
  ENTER("cuMemPoolSetAttribute");
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool handle, CUstream on) {
  ENTER("cuMemAllocFromPoolAsync");
  STREAM(on);
  auto* pool = reinterpret_cast<Pool*>(handle);
  if (pool->limit && bytes > pool->limit) return CUDA_ERROR_OUT_OF_MEMORY;
  return allocate(address, bytes, CU_MEMORYTYPE_DEVICE, false, pool->device);
}
CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream on) {
  ENTER("cuMemAllocAsync");
  STREAM(on);
  return allocate(address, bytes, CU_MEMORYTYPE_DEVICE, false, stream->context->device);
}
CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr address, CUstream on) {
  ENTER("cuMemFreeAsync");
  STREAM(on);
  if (!world().allocations.count(address)) return CUDA_ERROR_INVALID_VALUE;
  push(stream, [address] {
    const Lock inner(lock_of_all());
    if (release(address) != CUDA_SUCCESS) std::abort();
  });
  return CUDA_SUCCESS;
}

}  // extern "C"
