// SPDX-License-Identifier: Apache-2.0
#include "pool_end.hpp"

#include <exception>
#include <utility>

#include "context_scope.hpp"
#include "destroying.hpp"
#include "driver_pools.hpp"
#include "errors.hpp"
#include "sticky_errors.hpp"

namespace weir::cuda {

bool is_over(const PooledEvent& free, const Gpu& gpu) noexcept {
  const auto state = driver().EventQuery(free.handle);
  if (state != CUDA_ERROR_NOT_READY) report_failure(state, "cuEventQuery", gpu);
  return state == CUDA_SUCCESS;
}

PoolEnd::PoolEnd(Gpu& gpu) : gpu_(gpu), frees_on_(spi::Ref<GpuStream>::adopt(GpuStream::create(gpu))) {
  points().reserve(1);
}

void PoolEnd::follow(EventPool& events, CUstream native) noexcept try {
  const EventRef event = events.take();
  const auto recorded = driver().EventRecord(event->handle, native);
  report_failure(recorded, "cuEventRecord", gpu_);
  if (recorded != CUDA_SUCCESS) return;
  const ContextScope scope(gpu_.context());
  report_failure(driver().StreamWaitEvent(frees_on(), event->handle, CU_EVENT_WAIT_DEFAULT), "cuStreamWaitEvent", gpu_);
} catch (const std::exception&) {  // there is no event
}

// For some drivers the host has seen only what it waited for.
bool PoolEnd::has_seen_all() noexcept {
  std::erase_if(frees_, [this](const auto& free) {
    if (!is_over(*free.second, gpu_)) return false;
    const auto seen = driver().EventSynchronize(free.second->handle);
    report_failure(seen, "cuEventSynchronize", gpu_);
    return seen == CUDA_SUCCESS;
  });
  return frees_.empty() && driver().StreamQuery(frees_on()) == CUDA_SUCCESS &&
         driver().StreamSynchronize(frees_on()) == CUDA_SUCCESS;
}

void PoolEnd::end(CUmemoryPool pool, PoolFrees frees) noexcept {
  constexpr int tries = 8;
  pool_ = pool;
  frees_ = std::move(frees);
  for (int round = 0; round < tries; ++round) {
    const ReleaseScope scope(gpu_.context(), gpu_);
    if (!scope) continue;
    if (has_seen_all()) break;
    cuuint64_t nothing = 0;
    report_failure(driver().MemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &nothing),
                   "cuMemPoolSetAttribute", gpu_);
    if (add_point()) return gpu_.pools().ends().add(*this);
  }
  run();
}

// Wait for what has all frees behind it.
bool PoolEnd::add_point() noexcept try {
  for (const auto& [stream, free] : frees_) {
    const auto waits = driver().StreamWaitEvent(frees_on(), free->handle, CU_EVENT_WAIT_DEFAULT);
    report_failure(waits, "cuStreamWaitEvent", gpu_);
    if (waits != CUDA_SUCCESS) return false;
  }
  points().add(*frees_on_, frees_on_->put(spi::MarkOp{}), spi::Points::How::use);
  return true;
} catch (const std::exception&) {
  return false;
}

// If the driver refuses to say when a pool may end, the pool ends at once.
void PoolEnd::run() noexcept {
  const ReleaseScope scope(gpu_.context(), gpu_);
  if (scope) (void)has_seen_all();
  const auto pool = pool_;
  auto& gpu = gpu_;
  delete this;  // ends the stream
  report_failure(destroy_pool(pool), "cuMemPoolDestroy", gpu);
}

}  // namespace weir::cuda
