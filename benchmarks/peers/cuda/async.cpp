// SPDX-License-Identifier: Apache-2.0
#include "async.hpp"

#include <cstdint>

namespace weir::bench {
namespace {

CUmemoryPool make_pool_that_keeps() {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool pool = nullptr;
  must(cuda_driver().MemPoolCreate(&pool, &properties), "cuMemPoolCreate");
  std::uint64_t keep = UINT64_MAX;
  must(cuda_driver().MemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep),
       "cuMemPoolSetAttribute");
  return pool;
}

}  // namespace

CudaAsync::CudaAsync(Use use, std::size_t ready) : driver_(cuda_driver()) {
  make_cuda_current();
  if (use == Use::as_delivered) return;
  pool_ = make_pool_that_keeps();
  if (ready == 0) return;
  const Stream first = stream();
  pair(ready, first);
  synchronize(first);
}

CudaAsync::~CudaAsync() {
  if (pool_) driver_.MemPoolDestroy(pool_);
}

void CudaAsync::call(const Stream& stream, std::function<void()> function) const {
  auto moved = std::make_unique<std::function<void()>>(std::move(function));
  const auto run = [](void* data) {
    const std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(data));
    (*owned)();
  };
  must(driver_.LaunchHostFunc(stream.get(), run, moved.get()), "cuLaunchHostFunc");
  (void)moved.release();
}

Subject<CudaAsync> cuda_async(CudaAsync::Use use) {
  return {"cuda", use == CudaAsync::Use::tuned ? "cuMemAllocAsync tuned" : "cuMemAllocAsync default",
          [use](std::size_t ready) { return std::make_shared<CudaAsync>(use, ready); }};
}

}  // namespace weir::bench
