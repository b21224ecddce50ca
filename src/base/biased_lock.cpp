// SPDX-License-Identifier: Apache-2.0
#include "base/biased_lock.hpp"

#include <algorithm>

namespace weir::detail {

bool LeaningLock::begin_visit() noexcept {
  mutex_.lock();
  visited_ = leans_.load(std::memory_order_relaxed);
  if (!visited_) return false;
  leans_.store(nullptr, std::memory_order_relaxed);
  return visited_->thread != sync::this_thread();
}

// After the barrier, either the owner has seen that the lock leans to it no more, or it is seen inside.
void LeaningLock::wait_outside() noexcept {
  for (unsigned round = 0; !is_outside(); ++round) sync::pause(round);
}

void LeaningLock::end_visit() noexcept {
  if (visited_) leans_.store(visited_, std::memory_order_release);
  mutex_.unlock();
}

void LeaningLock::lock_mutex() noexcept {
  if (!begin_visit()) return;
  sync::heavy_barrier();
  wait_outside();
  taken_away_ = std::min<std::uint8_t>(static_cast<std::uint8_t>(taken_away_ + 1), 7);
}

void LeaningLock::unlock_mutex() noexcept {
  if (!always_) {
    count();
  } else if (visited_) {
    leans_.store(visited_, std::memory_order_release);
  }
  mutex_.unlock();
}

// Taking the lean away costs microseconds, hence it is given ever less readily.
void LeaningLock::count() noexcept {
  const auto self = sync::this_thread();
  in_a_row_ = last_ == self ? in_a_row_ + 1 : 0;
  last_ = self;
  if (in_a_row_ < sync::often << taken_away_ || !sync::has_heavy_barrier()) return;
  in_a_row_ = 0;
  leans_.store(seat_of(self), std::memory_order_release);
}

// Null when all belong to others.
LeaningLock::Seat* LeaningLock::seat_of(sync::ThreadId thread) noexcept {
  for (Seat& seat : seats_) {
    if (seat.thread == 0) seat.thread = thread;
    if (seat.thread == thread) return &seat;
  }
  return nullptr;
}

}  // namespace weir::detail
