// SPDX-License-Identifier: Apache-2.0
#include "pool/shard_lock.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

namespace weir::pool {
namespace {

long membarrier(int command) noexcept { return syscall(SYS_membarrier, command, 0, 0); }

// On every thread of the process that runs at this moment.
void full_barrier() noexcept {
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) return;
  (void)membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);  // a forked child
  (void)membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

// The holder may have lost its core: after a while, give it ours.
template <class Until>
void spin(const Until& until) noexcept {
  for (int i = 0; !until(); ++i) {
    if (i >= 64) std::this_thread::yield();
  }
}

}  // namespace

// The thread sanitizer does not know what such a barrier orders.
bool ShardLock::prepare() noexcept {
#if defined(__SANITIZE_THREAD__)
  return false;
#else
  static const bool registered = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
  return registered;
#endif
}

void ShardLock::lock_shared(Thread self) noexcept {
  while (taken_.exchange(true, std::memory_order_acquire)) {
    spin([this] { return !taken_.load(std::memory_order_relaxed); });
  }
  if (leans_to_.load(std::memory_order_relaxed) != 0) straighten();
  shared_ = true;
  in_a_row_ = last_ == self ? in_a_row_ + 1 : 0;
  last_ = self;
}

// Straightening costs microseconds, hence it leans ever less readily.
void ShardLock::unlock_shared() noexcept {
  shared_ = false;
  const std::uint32_t enough = std::uint32_t{128} << (3 * straightened_);
  if (in_a_row_ >= enough && prepare()) {
    in_a_row_ = 0;
    leans_to_.store(last_, std::memory_order_relaxed);
  }
  taken_.store(false, std::memory_order_release);
}

// After the barrier that thread sees that the lock leans to it no more, or this one sees it inside.
void ShardLock::straighten() noexcept {
  leans_to_.store(0, std::memory_order_relaxed);
  full_barrier();
  spin([this] { return !inside_.load(std::memory_order_acquire); });
  straightened_ = std::min<std::uint8_t>(static_cast<std::uint8_t>(straightened_ + 1), 7);
}

}  // namespace weir::pool
