// SPDX-License-Identifier: Apache-2.0
#include "pool_end.hpp"

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

bool see_if_over(const PooledEvent& free, const Gpu& gpu) noexcept {
  if (!is_over(free, gpu)) return false;
  const auto seen = driver().EventSynchronize(free.handle);
  report_failure(seen, "cuEventSynchronize", gpu);
  return seen == CUDA_SUCCESS;
}

PoolEnd::PoolEnd(Gpu& gpu)
    : gpu_(gpu), frees_on_(spi::Ref<GpuStream>::adopt(GpuStream::create(gpu))), event_(gpu.events().take()) {
  points().reserve(1);
}

void PoolEnd::follow(CUstream native) noexcept {
  note(insist([&] { return wait_for_work(native, *event_); }));
}

void PoolEnd::follow(EventPool& events, CUstream native) noexcept {
  note(insist([&] {
    const EventRef event = events.take();
    return wait_for_work(native, *event);
  }));
}

bool PoolEnd::wait_for_work(CUstream native, const PooledEvent& event) {
  if (driver().EventRecord(event.handle, native) != CUDA_SUCCESS) return false;
  const ContextScope scope(gpu_.context());
  return waits_for(event);
}

void PoolEnd::note(bool follows) noexcept { follows ? freed() : unknown_.store(true, std::memory_order_release); }

void PoolEnd::see(bool may_wait) noexcept {
  if (!unseen_.exchange(false, std::memory_order_acq_rel)) return;
  const bool all = (may_wait || driver().StreamQuery(frees_on()) == CUDA_SUCCESS) &&
                   driver().StreamSynchronize(frees_on()) == CUDA_SUCCESS;
  if (!all) freed();
}

bool PoolEnd::waits_for(const PooledEvent& event) noexcept {
  const auto waits = driver().StreamWaitEvent(frees_on(), event.handle, CU_EVENT_WAIT_DEFAULT);
  report_failure(waits, "cuStreamWaitEvent", gpu_);
  return waits == CUDA_SUCCESS;
}

bool PoolEnd::has_seen_all() noexcept {
  std::erase_if(frees_, [this](const auto& free) { return see_if_over(*free.second, gpu_); });
  return frees_.empty() && driver().StreamQuery(frees_on()) == CUDA_SUCCESS &&
         driver().StreamSynchronize(frees_on()) == CUDA_SUCCESS;
}

void PoolEnd::end(CUmemoryPool pool, PoolFrees frees) noexcept {
  pool_ = pool;
  frees_ = std::move(frees);
  bool waits = false;
  const bool known = !unknown_.load(std::memory_order_acquire) && insist([&] {
    const ReleaseScope scope(gpu_.context(), gpu_);
    if (!scope) return false;
    waits = !has_seen_all();
    return !waits || add_point();
  });
  if (!known) return leave();
  waits ? gpu_.pools().ends().add(*this) : run();
}

// What is lost with the device has been reported.
void PoolEnd::leave() noexcept {
  const ReleaseScope scope(gpu_.context(), gpu_);
  const bool lost = !scope || is_last_answer(driver().StreamQuery(frees_on()));
  auto& gpu = gpu_;
  delete this;
  if (!lost) report({{}, "end of a pool of the driver", "it is leaked: nothing says when its memory is free"});
  gpu.pools().count_end();
}

// Have a point that comes after all frees. From now on the pool keeps nothing that is free.
bool PoolEnd::add_point() {
  cuuint64_t nothing = 0;
  report_failure(driver().MemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &nothing),
                 "cuMemPoolSetAttribute", gpu_);
  for (const auto& [stream, free] : frees_) {
    if (!waits_for(*free)) return false;
  }
  points().add(*frees_on_, frees_on_->put(spi::MarkOp{}), spi::Points::How::use);
  return true;
}

void PoolEnd::run() noexcept {
  if (gpu_.inherited) return;  // a forked child leaves the parent's objects alone
  const ReleaseScope scope(gpu_.context(), gpu_);
  if (scope) (void)has_seen_all();
  const auto pool = pool_;
  auto& gpu = gpu_;
  delete this;  // ends the stream
  report_failure(destroy_pool(pool), "cuMemPoolDestroy", gpu);
  gpu.pools().count_end();
}

}  // namespace weir::cuda
