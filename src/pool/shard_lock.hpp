// SPDX-License-Identifier: Apache-2.0
#pragma once
// The lock of a shard. Most shards are used by one thread only, which then takes and gives it without an atomic
// read-modify-write: the lock leans to that thread, until another one asks.

#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace weir::pool {

/// For sections of a few instructions. Not recursive.
class ShardLock {
 public:
  /// Tell the kernel that barriers on other threads will be asked for, once: milliseconds in a process that has threads.
  /// False when it knows none. Without it, the first lock that leans does so.
  static bool prepare() noexcept;

  void lock() noexcept {
    if (!enter()) [[unlikely]] lock_shared(this_thread());
  }
  void unlock() noexcept {
    if (!shared_) [[likely]] return leave();
    unlock_shared();
  }
  /// Take it if it leans to this thread; else false. Given back by leave(). So that the usual way calls nothing.
  bool enter() noexcept {
    const auto self = this_thread();
    if (leans_to_.load(std::memory_order_relaxed) != self) [[unlikely]] return false;
    inside_.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // whoever asks puts the other half of the fence here
    if (leans_to_.load(std::memory_order_relaxed) == self) [[likely]] return true;
    leave();
    return false;
  }
  void leave() noexcept { inside_.store(false, std::memory_order_release); }
  [[nodiscard]] bool leans() const noexcept { return leans_to_.load(std::memory_order_relaxed) != 0; }

 private:
  using Thread = std::uintptr_t;  ///< unique among the threads that live

  static Thread this_thread() noexcept {
#if defined(__x86_64__)
    Thread self;
    asm("mov %%fs:0, %0" : "=r"(self));
    return self;
#else
    return static_cast<Thread>(pthread_self());
#endif
  }
  void lock_shared(Thread self) noexcept;
  void unlock_shared() noexcept;
  void straighten() noexcept;

  std::atomic<Thread> leans_to_{0};
  std::atomic<bool> inside_{false};  // that thread
  bool shared_ = false;              // held by taken_; the holder's
  std::atomic<bool> taken_{false};
  // Of who holds taken_.
  std::uint8_t straightened_ = 0;  // times
  std::uint32_t in_a_row_ = 0;     // by last_
  Thread last_ = 0;
};

}  // namespace weir::pool
