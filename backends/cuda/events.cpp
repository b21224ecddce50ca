// SPDX-License-Identifier: Apache-2.0
#include "events.hpp"

#include <map>
#include <memory>

#include "context_scope.hpp"

namespace weir::cuda {

void ref_retain(PooledEvent* event) noexcept { event->owners.fetch_add(1, std::memory_order_relaxed); }

void ref_release(PooledEvent* event) noexcept {
  if (event->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) event->pool->put(event);
}

EventPool& EventPool::of(CUcontext context) {
  static auto& mutex = *new std::mutex;
  static auto& pools = *new std::map<unsigned long long, EventPool*>;  // by id, because handles are reused
  unsigned long long id = 0;
  check(driver().CtxGetId(context, &id), "cuCtxGetId");
  const std::scoped_lock lock(mutex);
  auto& pool = pools[id];
  if (!pool) pool = new EventPool(context);
  return *pool;
}

EventRef EventPool::take() {
  {
    const std::scoped_lock lock(mutex_);
    if (free_) {
      PooledEvent* event = free_;
      free_ = event->next;
      return EventRef::retain(event);
    }
  }
  auto event = std::make_unique<PooledEvent>();
  const ContextScope scope(context_);
  check(driver().EventCreate(&event->handle, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  event->pool = this;
  return EventRef::retain(event.release());
}

void EventPool::put(PooledEvent* event) noexcept {
  const std::scoped_lock lock(mutex_);
  event->next = free_;
  free_ = event;
}

}  // namespace weir::cuda
