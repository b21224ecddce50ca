// SPDX-License-Identifier: Apache-2.0
#pragma once
// A lock that once protected a pool's cache, and let two threads in: one flag says "inside" for every thread that the
// lock ever leans to. Kept to show that the explorer finds that. It leans after fewer rounds than it did.

#include <algorithm>
#include <cstdint>

#include "weir/spi/sync.hpp"

namespace weir::broken {

class ShardLock {
 public:
  /// How often a lock may lean to another thread than the first. Never is enough to make it right.
  explicit ShardLock(bool leans_again = true) noexcept : leans_again_(leans_again) {}

  void lock() noexcept {
    if (!enter()) lock_shared(sync::this_thread());
  }
  void unlock() noexcept {
    if (!shared_) return leave();
    unlock_shared();
  }

 private:
  bool enter() noexcept {
    const auto self = sync::this_thread();
    if (leans_to_.load(std::memory_order_relaxed) != self) return false;
    inside_.store(true, std::memory_order_relaxed);
    sync::light_barrier();  // whoever asks puts the other half of the fence here
    if (leans_to_.load(std::memory_order_relaxed) == self) return true;
    leave();
    return false;
  }
  void leave() noexcept { inside_.store(false, std::memory_order_release); }

  void lock_shared(sync::ThreadId self) noexcept {
    while (taken_.exchange(true, std::memory_order_acquire)) {
      for (unsigned i = 0; taken_.load(std::memory_order_relaxed); ++i) sync::pause(i);
    }
    if (leans_to_.load(std::memory_order_relaxed) != 0) straighten();
    shared_ = true;
    in_a_row_ = last_ == self ? in_a_row_ + 1 : 0;
    last_ = self;
  }
  void unlock_shared() noexcept {
    shared_ = false;
    const std::uint32_t enough = straightened_;  // was 128 << (3 * straightened_)
    if (in_a_row_ >= enough && (leans_again_ || straightened_ == 0) && sync::has_heavy_barrier()) {
      in_a_row_ = 0;
      leans_to_.store(last_, std::memory_order_relaxed);
    }
    taken_.store(false, std::memory_order_release);
  }
  // After the barrier that thread sees that the lock leans to it no more, or this one sees it inside.
  void straighten() noexcept {
    leans_to_.store(0, std::memory_order_relaxed);
    sync::heavy_barrier();
    for (unsigned i = 0; inside_.load(std::memory_order_acquire); ++i) sync::pause(i);
    straightened_ = std::min<std::uint8_t>(static_cast<std::uint8_t>(straightened_ + 1), 7);
  }

  const bool leans_again_;
  sync::Atomic<sync::ThreadId> leans_to_{0};
  sync::Atomic<bool> inside_{false};  // that thread
  bool shared_ = false;               // held by taken_; the holder's
  sync::Atomic<bool> taken_{false};
  // Of whoever holds taken_.
  std::uint8_t straightened_ = 0;  // times
  std::uint32_t in_a_row_ = 0;     // by last_
  sync::ThreadId last_ = 0;
};

}  // namespace weir::broken
