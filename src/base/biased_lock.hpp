// SPDX-License-Identifier: Apache-2.0
#pragma once
// A lock that one thread at a time takes and gives without a read-modify-write: it leans to that thread. Others take a mutex
// and the lean away, which costs them a barrier on all threads of the process. Locks of many caches may share one barrier.

#include <array>
#include <cstdint>

#include "weir/spi/sync.hpp"

namespace weir::detail {

/// For sections of a few instructions. Not recursive.
///
/// Whoever the lock leans to says so in a seat that is bound to that thread for good, because it may still write there long
/// after the lean was taken away. Invariants: only the thread of a seat writes its `inside`; the lean is given and taken
/// under the mutex; whoever holds the mutex with the lean taken away and has seen the seat empty after a barrier is alone.
class LeaningLock {
 public:
  /// Leans to a thread once it has taken the lock often enough in a row. Four threads can have that in the lock's life.
  LeaningLock() noexcept = default;
  /// Leans to that thread from the beginning and again after every visit, where the kernel has barriers; to nobody when it
  /// is 0.
  explicit LeaningLock(sync::ThreadId owner) noexcept : always_(true) {
    seats_[0].thread = owner;
    if (owner != 0 && sync::has_heavy_barrier()) leans_.store(seats_.data(), std::memory_order_release);
  }
  LeaningLock(const LeaningLock&) = delete;
  LeaningLock& operator=(const LeaningLock&) = delete;

  struct Seat {
    sync::Plain<sync::ThreadId> thread = 0;
    sync::Atomic<bool> inside{false};
  };

  /// Take it if it leans to this thread; else null. So that the usual way calls nothing.
  Seat* enter() noexcept {
    Seat* const seat = leans_.load(std::memory_order_acquire);
    if (!seat || seat->thread != sync::this_thread()) [[unlikely]] return nullptr;
    seat->inside.store(true, std::memory_order_relaxed);
    sync::light_barrier();  // whoever takes the lean away puts the other half here
    if (leans_.load(std::memory_order_acquire) == seat) [[likely]] return seat;
    leave(seat);
    return nullptr;
  }
  static void leave(Seat* seat) noexcept { seat->inside.store(false, std::memory_order_release); }

  void lock() noexcept {
    if (Seat* const seat = enter()) [[likely]] {
      held_ = seat;
    } else {
      lock_mutex();
    }
  }
  void unlock() noexcept {
    if (Seat* const seat = held_) [[likely]] {
      held_ = nullptr;
      leave(seat);
    } else {
      unlock_mutex();
    }
  }

  // The same for others, in steps, so that many locks need one barrier.

  /// Keep everybody out that is not inside. True when the owner may be: then a heavy barrier, and wait_outside().
  [[nodiscard]] bool begin_visit() noexcept;
  /// Whether the owner is outside by now.
  [[nodiscard]] bool is_outside() const noexcept {
    return !visited_ || visited_->thread == sync::this_thread() || !visited_->inside.load(std::memory_order_acquire);
  }
  void wait_outside() noexcept;
  void end_visit() noexcept;

  [[nodiscard]] bool leans() const noexcept { return leans_.load(std::memory_order_relaxed) != nullptr; }

 private:
  void lock_mutex() noexcept;
  void unlock_mutex() noexcept;
  void count() noexcept;
  Seat* seat_of(sync::ThreadId thread) noexcept;

  sync::Atomic<Seat*> leans_{nullptr};
  sync::Plain<Seat*> held_ = nullptr;  // of lock(): the holder's; null while it holds the mutex
  std::array<Seat, 4> seats_;
  sync::Mutex mutex_;
  // Under the mutex.
  sync::Plain<Seat*> visited_ = nullptr;  // to which it leant
  sync::Plain<sync::ThreadId> last_ = 0;
  sync::Plain<std::uint32_t> in_a_row_ = 0;  // by last_
  sync::Plain<std::uint8_t> taken_away_ = 0;
  const bool always_ = false;
};

}  // namespace weir::detail
