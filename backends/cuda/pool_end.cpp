// SPDX-License-Identifier: Apache-2.0
#include "pool_end.hpp"

#include <utility>

#include "context_scope.hpp"
#include "destroying.hpp"
#include "driver_pools.hpp"
#include "errors.hpp"
#include "sticky_errors.hpp"

namespace weir::cuda {

namespace {

bool is_over(const PooledEvent& free, const Gpu& gpu) noexcept {
  const auto state = driver().EventQuery(free.handle);
  if (state != CUDA_ERROR_NOT_READY) report_failure(state, "cuEventQuery", gpu);
  return state == CUDA_SUCCESS;
}

bool wait_until_seen(const PooledEvent& free, const Gpu& gpu) noexcept {
  const auto seen = driver().EventSynchronize(free.handle);
  report_failure(seen, "cuEventSynchronize", gpu);
  return seen == CUDA_SUCCESS;
}

}  // namespace

bool see_if_over(const PooledEvent& free, const Gpu& gpu) noexcept {
  return is_over(free, gpu) && wait_until_seen(free, gpu);
}

PoolEnd::PoolEnd(Gpu& gpu)
    : gpu_(gpu),
      frees_on_(spi::Ref<GpuStream>::adopt(GpuStream::create(gpu))),
      event_(gpu.events().take()),
      last_(gpu.events().take()) {
  points().reserve(1);
}

// If the driver refuses each time, trim() does not wait for this free. The end of the pool does.
void PoolEnd::freed() noexcept {
  freed_ = insist([&] { return driver().EventRecord(last_->handle, frees_on()) == CUDA_SUCCESS; }) || freed_;
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

// Reports nothing: the caller has a lock, and a lasting failure is reported at the end.
bool PoolEnd::wait_for_work(CUstream native, const PooledEvent& event) {
  if (driver().EventRecord(event.handle, native) != CUDA_SUCCESS) return false;
  const ContextScope scope(gpu_.context());
  if (driver().StreamWaitEvent(frees_on(), event.handle, CU_EVENT_WAIT_DEFAULT) != CUDA_SUCCESS) return false;
  freed();
  return true;
}

void PoolEnd::note(bool follows) noexcept { unknown_ = unknown_ || !follows; }

void PoolEnd::see() noexcept {
  if (freed_) see_if_over(*last_, gpu_);
}

EventRef PoolEnd::take_last() noexcept try {
  if (!freed_) return {};
  EventRef next = gpu_.events().take();
  freed_ = false;
  return std::exchange(last_, std::move(next));
} catch (const std::exception&) {
  return last_;  // so whoever waits for it may wait for a later free, too
}

void PoolEnd::put_last(EventRef last) noexcept {
  if (freed_) return;  // a later one is there
  last_ = std::move(last);
  freed_ = true;
}

bool PoolEnd::has_seen_all() noexcept {
  std::erase_if(frees_, [this](const auto& free) { return see_if_over(*free.second, gpu_); });
  return frees_.empty() && driver().StreamQuery(frees_on()) == CUDA_SUCCESS &&
         driver().StreamSynchronize(frees_on()) == CUDA_SUCCESS;
}

bool PoolEnd::wait_for_all() noexcept {
  std::erase_if(frees_, [this](const auto& free) { return wait_until_seen(*free.second, gpu_); });
  return frees_.empty() && driver().StreamSynchronize(frees_on()) == CUDA_SUCCESS;
}

void PoolEnd::end(CUmemoryPool pool, PoolFrees frees) noexcept {
  pool_ = pool;
  frees_ = std::move(frees);
  bool waits = false;
  const bool known = !unknown_ && insist([&] {
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
    const auto waits = driver().StreamWaitEvent(frees_on(), free->handle, CU_EVENT_WAIT_DEFAULT);
    report_failure(waits, "cuStreamWaitEvent", gpu_);
    if (waits != CUDA_SUCCESS) return false;
  }
  points().add(*frees_on_, frees_on_->put(spi::MarkOp{}), spi::Points::How::use);
  return true;
}

// All frees are complete, so nothing here takes long.
void PoolEnd::run() noexcept {
  if (gpu_.inherited) return;  // a forked child leaves the parent's objects alone
  const bool seen = insist([&] {
    const ReleaseScope scope(gpu_.context(), gpu_);
    return scope && wait_for_all();
  });
  if (!seen) return leave();
  const ReleaseScope scope(gpu_.context(), gpu_);
  const auto pool = pool_;
  auto& gpu = gpu_;
  delete this;  // ends the stream
  report_failure(destroy_pool(pool), "cuMemPoolDestroy", gpu);
  gpu.pools().count_end();
}

}  // namespace weir::cuda
