// SPDX-License-Identifier: Apache-2.0
#include "blocking_frees.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "base/never_ends.hpp"
#include "context_scope.hpp"

namespace weir::cuda {

BlockingFrees& BlockingFrees::get() noexcept { return weir::detail::never_ends<BlockingFrees>(); }

void BlockingFrees::expect() {
  const Lock lock(mutex_);
  if (expected_ == postponed_.capacity()) postponed_.reserve(2 * expected_ + 1);
  ++expected_;
}

void BlockingFrees::forget() noexcept {
  const Lock lock(mutex_);
  --expected_;
}

void BlockingFrees::free(Memory memory) noexcept {
  Lock lock(mutex_);
  if (waits_ != 0) {
    postponed_.push_back(std::move(memory));  // expect() made room
  } else {
    call(std::move(memory), lock);
  }
}

void BlockingFrees::free_unexpected(Memory memory) noexcept {
  try {
    expect();
  } catch (const std::bad_alloc&) {
    return report_failure(CUDA_ERROR_OUT_OF_MEMORY, "cuMemFree is not called, and memory is leaked", *memory.gpu);
  }
  free(std::move(memory));
}

// Without this, streams that wait for the host one after another without a gap would put off all frees for ever.
bool BlockingFrees::take_back(Memory& memory) noexcept {
  const Lock lock(mutex_);
  const auto same = [&memory](const Memory& one) {
    return one.gpu == memory.gpu && one.kind == memory.kind && one.bytes == memory.bytes;
  };
  const auto found = std::ranges::find_if(postponed_, same);
  if (found == postponed_.end()) return false;
  memory = std::move(*found);
  if (found != postponed_.end() - 1) *found = std::move(postponed_.back());
  postponed_.pop_back();
  return true;
}

// Frees the memory of other APIs in the order that the driver wants. If the address cannot be freed, the import stays.
void BlockingFrees::call(Memory memory, Lock& lock) noexcept {
  ++running_;
  --expected_;
  lock.unlock();
  {
    const ReleaseScope scope(memory.gpu->context(), *memory.gpu);
    const bool pinned = memory.kind == MemoryKind::pinned;
    if (scope && pinned) report_failure(driver().MemFreeHost(memory.host), "cuMemFreeHost", *memory.gpu);
    const auto freed = scope && !pinned ? driver().MemFree(memory.address) : CUDA_SUCCESS;
    report_failure(freed, "cuMemFree", *memory.gpu);
    if (scope && memory.external && freed == CUDA_SUCCESS)
      report_failure(driver().DestroyExternalMemory(memory.external), "cuDestroyExternalMemory", *memory.gpu);
  }
  memory.source = {};
  lock.lock();
  if (--running_ == 0) none_runs_.notify_all();
}

bool BlockingFrees::free_postponed(Lock& lock) noexcept {
  bool some = false;
  for (; waits_ == 0 && !postponed_.empty(); some = true) {
    Memory last = std::move(postponed_.back());
    postponed_.pop_back();
    call(std::move(last), lock);
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
  ++waits_;  // before the wait below, so that no further free begins
  none_runs_.wait(lock, [this] { return running_ == 0; });
}

void BlockingFrees::end_wait() noexcept {
  Lock lock(mutex_);
  --waits_;
  (void)free_postponed(lock);
}

}  // namespace weir::cuda
