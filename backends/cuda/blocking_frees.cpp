// SPDX-License-Identifier: Apache-2.0
#include "blocking_frees.hpp"

#include <new>

#include "base/never_ends.hpp"
#include "context_scope.hpp"

namespace weir::cuda {

BlockingFrees& BlockingFrees::get() noexcept { return weir::detail::never_ends<BlockingFrees>(); }

void BlockingFrees::run(Free free) noexcept {
  Lock lock(mutex_);
  if (waits_ != 0) {
    try {
      postponed_.push_back(free);
      return;
    } catch (const std::bad_alloc&) {  // nobody would free it later; now the driver may only make others wait
    }
  }
  call(free, lock);
}

void BlockingFrees::call(const Free& free, Lock& lock) noexcept {
  ++running_;
  lock.unlock();
  {
    const ReleaseScope scope(free.gpu->context(), *free.gpu);
    if (scope && free.host) report_failure(driver().MemFreeHost(free.host), "cuMemFreeHost", *free.gpu);
    if (scope && !free.host) report_failure(driver().MemFree(free.address), "cuMemFree", *free.gpu);
  }
  lock.lock();
  if (--running_ == 0) none_runs_.notify_all();
}

bool BlockingFrees::free_postponed(Lock& lock) noexcept {
  bool some = false;
  for (; waits_ == 0 && !postponed_.empty(); some = true) {
    const Free last = postponed_.back();
    postponed_.pop_back();
    call(last, lock);
  }
  return some;
}

bool BlockingFrees::settle() noexcept {
  Lock lock(mutex_);
  bool some = free_postponed(lock);
  if (waits_ != 0) return some;
  some = some || running_ != 0;
  none_runs_.wait(lock, [this] { return running_ == 0; });
  return some;
}

void BlockingFrees::begin_wait() noexcept {
  Lock lock(mutex_);
  ++waits_;  // before waiting, so that no other free begins
  none_runs_.wait(lock, [this] { return running_ == 0; });
}

void BlockingFrees::end_wait() noexcept {
  Lock lock(mutex_);
  --waits_;
  (void)free_postponed(lock);
}

}  // namespace weir::cuda
