// SPDX-License-Identifier: Apache-2.0
#pragma once
// A lock that can be biased towards one thread. That thread takes and releases it without an atomic read-modify-write.
// Any other thread takes a mutex and revokes the bias, which costs a barrier on all threads of the process. One barrier
// can revoke the bias of many locks.

#include <array>
#include <cstdint>

#include "weir/spi/fork_link.hpp"
#include "weir/spi/sync.hpp"

namespace weir::detail {

/// For critical sections of a few instructions. Not recursive.
///
/// The thread that has the bias marks its seat while it is inside. A seat belongs to one thread for good, because that
/// thread may still write to it long after it has lost the bias. Invariants: only the seat's thread writes `inside`;
/// the bias changes only under the mutex; a thread is alone once it holds the mutex, has revoked the bias, and has seen
/// the seat empty after a barrier.
class BiasedLock {
 public:
  /// Biased towards a thread once that thread has taken the lock often enough in a row. At most four threads can get
  /// the bias in the lock's life.
  BiasedLock() noexcept = default;
  /// Biased towards `owner` from the beginning, and again after every visit, if the kernel has heavy barriers. With an
  /// `owner` of 0 no thread ever gets the bias.
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

  /// Take the lock if it is biased towards this thread, and return the seat to pass to exit(); else return null. Makes
  /// no function call, because this is the fastest path.
  Seat* enter() noexcept {
    Seat* const seat = bias_.load(std::memory_order_acquire);
    if (!seat || seat->thread != sync::this_thread()) [[unlikely]] return nullptr;
    seat->inside.store(true, std::memory_order_relaxed);
    sync::light_barrier();  // pairs with the heavy barrier of a thread that revokes the bias
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

  // How other threads take the lock: in steps, so that many locks need only one barrier.

  /// Keep out every thread that is not inside already. Return true when the thread with the bias may be inside: the
  /// caller then needs a heavy barrier and wait_outside().
  [[nodiscard]] bool begin_visit() noexcept;
  /// Return whether the thread that had the bias is outside by now.
  [[nodiscard]] bool is_outside() const noexcept {
    return !visited_ || visited_->thread == sync::this_thread() || !visited_->inside.load(std::memory_order_acquire);
  }
  void wait_outside() noexcept;
  void end_visit() noexcept;
  /// The same in the child of a fork that was made during the visit. The child does not have the other threads. One of
  /// them may have stood in enter(), about to see that it has lost the bias, and would seem to be inside for ever.
  void end_visit_in_child() noexcept;

  /// Take part in a fork, with a visit that lasts from before the fork until after it. lock() would not be enough: with
  /// the bias it takes no mutex, and a thread that waits for this one to come outside has the mutex for ever in a
  /// child.
  void fork(spi::ForkMoment moment) noexcept;

  [[nodiscard]] bool is_biased() const noexcept { return bias_.load(std::memory_order_relaxed) != nullptr; }

 private:
  void lock_mutex() noexcept;
  void unlock_mutex() noexcept;
  void count() noexcept;
  Seat* seat_of(sync::ThreadId thread) noexcept;

  sync::Atomic<Seat*> bias_{nullptr};
  sync::Plain<Seat*> held_ = nullptr;  // for unlock(): the holder's seat; null when the holder has the mutex instead
  std::array<Seat, 4> seats_;
  sync::Mutex mutex_;
  // Under the mutex.
  sync::Plain<Seat*> visited_ = nullptr;  // the seat that had the bias before the visit
  sync::Plain<sync::ThreadId> last_ = 0;
  sync::Plain<std::uint32_t> in_a_row_ = 0;  // how often in a row last_ has taken the lock again
  sync::Plain<std::uint8_t> revoked_ = 0;
  const bool always_ = false;
};

}  // namespace weir::detail
