// SPDX-License-Identifier: Apache-2.0
#pragma once
// A lock that is biased towards one thread, which takes and releases it without an atomic read-modify-write. Another
// thread takes a mutex and revokes the bias, which costs a barrier on all threads of the process. Many locks can be
// revoked with one barrier.

#include <array>
#include <cstdint>

#include "weir/spi/sync.hpp"

namespace weir::detail {

/// For sections of a few instructions. Not recursive.
///
/// The thread that has the bias says in a seat that it is inside. A seat belongs to one thread for good, because that
/// thread may still write there long after it has lost the bias. Invariants: only the thread of a seat writes its `inside`;
/// the bias changes only under the mutex; a thread that holds the mutex, has revoked the bias, and has seen the seat empty
/// after a barrier is alone.
class BiasedLock {
 public:
  /// Biased towards a thread once it has taken the lock often enough in a row. Four threads can get that in the lock's life.
  BiasedLock() noexcept = default;
  /// Biased towards that thread from the beginning, and again after every visit, where the kernel has barriers. 0 means
  /// towards nobody.
  explicit BiasedLock(sync::ThreadId owner) noexcept : always_(true) {
    seats_[0].thread = owner;
    if (owner != 0 && sync::has_heavy_barrier()) bias_.store(seats_.data(), std::memory_order_release);
  }
  BiasedLock(const BiasedLock&) = delete;
  BiasedLock& operator=(const BiasedLock&) = delete;

  struct Seat {
    sync::Plain<sync::ThreadId> thread = 0;
    sync::Atomic<bool> inside{false};
  };

  /// Take the lock if it is biased towards this thread; else null. Calls nothing, for the fastest path.
  Seat* enter() noexcept {
    Seat* const seat = bias_.load(std::memory_order_acquire);
    if (!seat || seat->thread != sync::this_thread()) [[unlikely]] return nullptr;
    seat->inside.store(true, std::memory_order_relaxed);
    sync::light_barrier();  // whoever revokes the bias puts the other half here
    if (bias_.load(std::memory_order_acquire) == seat) [[likely]] return seat;
    exit(seat);
    return nullptr;
  }
  static void exit(Seat* seat) noexcept { seat->inside.store(false, std::memory_order_release); }

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
      exit(seat);
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

  [[nodiscard]] bool is_biased() const noexcept { return bias_.load(std::memory_order_relaxed) != nullptr; }

 private:
  void lock_mutex() noexcept;
  void unlock_mutex() noexcept;
  void count() noexcept;
  Seat* seat_of(sync::ThreadId thread) noexcept;

  sync::Atomic<Seat*> bias_{nullptr};
  sync::Plain<Seat*> held_ = nullptr;  // of lock(): the holder's; null while it holds the mutex
  std::array<Seat, 4> seats_;
  sync::Mutex mutex_;
  // Under the mutex.
  sync::Plain<Seat*> visited_ = nullptr;  // the seat that had the bias
  sync::Plain<sync::ThreadId> last_ = 0;
  sync::Plain<std::uint32_t> in_a_row_ = 0;  // by last_
  sync::Plain<std::uint8_t> revoked_ = 0;
  const bool always_ = false;
};

}  // namespace weir::detail
