// SPDX-License-Identifier: Apache-2.0
#include "base/biased_lock.hpp"

#include <algorithm>

namespace weir::detail {

bool BiasedLock::begin_visit() noexcept {
  mutex_.lock();
  visited_ = bias_.load(std::memory_order_relaxed);
  if (!visited_) return false;
  bias_.store(nullptr, std::memory_order_relaxed);
  return visited_->thread != sync::this_thread();
}

// After the barrier, either the thread with the bias has seen that it lost the bias, or this thread sees it inside.
void BiasedLock::wait_outside() noexcept {
  for (unsigned round = 0; !is_outside(); ++round) sync::pause(round);
}

void BiasedLock::end_visit() noexcept {
  if (visited_) bias_.store(visited_, std::memory_order_release);
  mutex_.unlock();
}

void BiasedLock::end_visit_in_child() noexcept {
  for (Seat& seat : seats_) {
    if (seat.thread != sync::this_thread()) exit(&seat);
  }
  end_visit();
}

void BiasedLock::fork(spi::ForkMoment moment) noexcept {
  if (moment == spi::ForkMoment::child) return end_visit_in_child();
  if (moment == spi::ForkMoment::parent) return end_visit();
  if (begin_visit()) sync::heavy_barrier();
  wait_outside();
}

void BiasedLock::lock_mutex() noexcept {
  if (!begin_visit()) return;
  sync::heavy_barrier();
  wait_outside();
  revoked_ = std::min<std::uint8_t>(static_cast<std::uint8_t>(revoked_ + 1), 7);
}

void BiasedLock::unlock_mutex() noexcept {
  if (!always_) {
    count();
  } else if (visited_) {
    bias_.store(visited_, std::memory_order_release);
  }
  mutex_.unlock();
}

// A revocation costs microseconds, so each one makes the next bias harder to get.
void BiasedLock::count() noexcept {
  const auto self = sync::this_thread();
  in_a_row_ = last_ == self ? in_a_row_ + 1 : 0;
  last_ = self;
  if (in_a_row_ < sync::often << revoked_ || !sync::has_heavy_barrier()) return;
  in_a_row_ = 0;
  bias_.store(seat_of(self), std::memory_order_release);
}

// Return null when every seat belongs to another thread.
BiasedLock::Seat* BiasedLock::seat_of(sync::ThreadId thread) noexcept {
  for (Seat& seat : seats_) {
    if (seat.thread == 0) seat.thread = thread;
    if (seat.thread == thread) return &seat;
  }
  return nullptr;
}

}  // namespace weir::detail
