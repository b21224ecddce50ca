// SPDX-License-Identifier: Apache-2.0
#pragma once
// A lock of one byte for sections of a few instructions, which std::mutex would triple.

#include <atomic>
#include <thread>

namespace weir::pool {

class SpinLock {
 public:
  void lock() noexcept {
    while (taken_.exchange(true, std::memory_order_acquire)) wait();
  }
  void unlock() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  // The holder may have lost its core: after a while, give it ours.
  void wait() noexcept {
    for (int i = 0; taken_.load(std::memory_order_relaxed); ++i) {
      if (i >= 64) std::this_thread::yield();
    }
  }

  std::atomic<bool> taken_{false};
};

}  // namespace weir::pool
