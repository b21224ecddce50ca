// SPDX-License-Identifier: Apache-2.0
// How far a timeline is: what is known already, what the driver is asked, and how the host waits.
#include <algorithm>

#include "base/atomic_max.hpp"
#include "base/library_thread.hpp"
#include "base/thrown_by.hpp"
#include "weir/error.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::spi {

// On a forgotten stream, a caller that merely looks gets the value that was marked last.
std::uint64_t StreamState::position(MarkOp mark) noexcept {
  if (!foreign() || detail::LibraryThread::here()) return issued_.load(std::memory_order_acquire);
  try {
    return put(mark);
  } catch (...) {
    // No operation can be put now, but others may have used the native stream. So issue a value that finished() will
    // mark.
    Lock lock(mutex_);
    changed_.wait(lock, [&] { return !inside_; });
    const auto last = issued_.load(std::memory_order_relaxed);
    if (sealed_) return last;
    if (mark.looks && forgotten_) return marked_.load(std::memory_order_acquire);
    issued_.store(last + 1, std::memory_order_release);
    detail::atomic_max(submitted_, last + 1);
    if (goes_on_) {  // finished() may not ask later, when nobody names the stream
      take_turn(lock);
      const bool possible = !sealed_ && !(mark.looks && forgotten_);  // they may have changed before this turn
      lock.unlock();
      if (possible) (void)detail::thrown_by([&] { mark_in_turn(); });
      lock.lock();
      end_turn(lock);
    }
    return last + 1;
  }
}

std::uint64_t StreamState::mark() {
  if (!foreign()) {
    const auto issued = issued_.load(std::memory_order_acquire);
    if (known_reached(issued) || marked_.load(std::memory_order_acquire) >= issued) {
      throw_if_lost();
      return issued;
    }
  }
  return put(MarkOp{});
}

bool StreamState::reached(std::uint64_t value) noexcept {
  if (known_reached(value)) return true;
  if (lost()) return false;
  if (!submitted(value)) {
    if (orphaned_.load(std::memory_order_relaxed)) resume();
    return false;
  }
  const auto refused = detail::thrown_by([&] {
    if (marked_.load(std::memory_order_acquire) >= value || try_mark()) complete_unless_lost(do_poll());
  });
  if (refused) lose_if_gone(refused);
  return known_reached(value);
}

// Return false when another thread has the turn (then that thread makes the mark), and when nobody can make a mark.
bool StreamState::try_mark() {
  Lock lock(mutex_);
  if (!may_look()) return false;
  if (turn_ != next_turn_ || forking_) {
    mark_wanted_ = true;
    return false;
  }
  take_turn(lock);  // does not wait
  lock.unlock();
  const auto refused = detail::thrown_by([&] { mark_in_turn(); });
  lock.lock();
  end_turn(lock);
  if (refused) std::rethrow_exception(refused);
  return true;
}

bool StreamState::finished(std::uint64_t value, bool& refused) noexcept {
  if (device_->inherited) return true;  // its work runs in the parent, on the parent's memory
  value = std::max(value, inherited_);  // covers what the parent's threads had put and not recorded yet
  if (reached(value)) return true;
  if (!lost()) return false;
  if (orphaned_.load(std::memory_order_relaxed)) resume();
  bool sealed = false, forgotten = false, goes_on = false;
  Kept behind;  // for whose memory this one was to wait; ends after the lock
  std::uint64_t its_value = 0;
  {  // an operation that is being submitted now, or a host function that is running, may become the last to run
    const Lock lock(mutex_);
    if (inside_ || calling_) return false;
    if (value >= never_free_.load(std::memory_order_acquire)) return false;
    if (const WaitOp* const wait = awaited_space(value)) {
      behind = Kept(*wait->other);
      its_value = wait->value;
    }
    sealed = sealed_;
    forgotten = forgotten_;
    goes_on = goes_on_;
  }
  if (behind) {  // a thread waits for it, and goes on with what is held back here
    (void)behind->finished(its_value, refused);
    return false;
  }
  // Work that the driver never got cannot run. Work that it got may still run, although nobody may add to it.
  const auto last = std::min(value, submitted_.load(std::memory_order_acquire));
  if (known_over(last)) return true;
  try {
    if (marked_.load(std::memory_order_acquire) < last) {
      if (sealed && !goes_on) {  // nothing more than this will be known
        refused = !says_gone(error_);
        return !refused && !outlives_device();
      }
      if (sealed || !try_mark()) {
        refused = forgotten;
        return false;
      }
    }
    detail::atomic_max(over_, do_poll());  // which may be work whose input never came
  } catch (const Error& error) {
    refused = error.code() != Errc::device_lost;
    return !refused && !outlives_device();
  } catch (...) {
    refused = true;
    return false;
  }
  return known_over(last);
}

// Needs the lock. Return the first wait up to `value` for memory that another timeline may still use; null if there is
// none.
const WaitOp* StreamState::awaited_space(std::uint64_t value) const noexcept {
  for (const Pending& pending : queue_) {
    const auto* const wait = std::get_if<WaitOp>(&pending.op);
    if (wait && wait->for_space && pending.value <= value) return wait;
  }
  return nullptr;
}

void StreamState::never_free_from(std::uint64_t value) noexcept {
  auto seen = never_free_.load(std::memory_order_relaxed);
  while (value < seen && !never_free_.compare_exchange_weak(seen, value, std::memory_order_acq_rel)) {
  }
}

bool StreamState::await_over(std::uint64_t value) noexcept {
  for (unsigned round = 0; !finished(value); ++round) {
    if (never_known(value)) return false;
    if (!lost()) (void)detail::thrown_by([&] { (void)wait_for(value, std::chrono::nanoseconds{-1}); });
    sync::pause(round);
  }
  return true;
}

bool StreamState::known_over(std::uint64_t value) const noexcept {
  return known_reached(value) || over_.load(std::memory_order_acquire) >= value;
}

void StreamState::ensure_marked(std::uint64_t value) {
  if (marked_.load(std::memory_order_acquire) >= value || known_reached(value)) return;
  device_->check_process();
  Lock lock(mutex_);
  take_turn(lock);
  const bool possible = !sealed_, forgotten = forgotten_;
  lock.unlock();
  const auto refused = detail::thrown_by([&] {
    if (!possible || marked_.load(std::memory_order_acquire) >= value) return;
    if (forgotten)
      throw Error(Errc::unsupported, "nobody names stream " + std::to_string(id_) + " on " + device_->describe());
    mark_in_turn();
  });
  lock.lock();
  end_turn(lock);
  lock.unlock();
  if (!refused) return;
  lose_if_gone(refused);
  throw_if_lost();
  std::rethrow_exception(refused);
}

void StreamState::mark_submitted() noexcept {
  constexpr unsigned most_rounds = 160;  // about 0.1 s
  const auto last = submitted_.load(std::memory_order_acquire);
  if (lost()) return static_cast<void>(finished(last));
  const auto nobody_can = [this] {
    const Lock lock(mutex_);
    return !may_look();
  };
  for (unsigned round = 0; round < most_rounds && !known_reached(last) && !is_marked(last); ++round) {
    bool marked = false;
    const auto refused = detail::thrown_by([&] { marked = try_mark(); });
    if (refused) lose_if_gone(refused);
    if (marked || refused || nobody_can()) return;
    sync::pause(round);
  }
}

bool StreamState::wait_submitted(std::uint64_t value) {
  if (submitted(value)) return true;
  Lock lock(mutex_);
  if (orphaned_) start_worker();
  changed_.wait(lock, [&] { return submitted(value) || lost(); });
  return submitted(value) && !lost();
}

WaitStatus StreamState::wait_for(std::uint64_t value, std::chrono::nanoseconds timeout) {
  if (reached(value)) return WaitStatus::ready;
  using Clock = sync::Clock;
  const bool bounded = timeout.count() >= 0;
  // A timeout that the clock may not be able to add counts as no limit.
  const bool endless = !bounded || timeout > std::chrono::hours{24 * 365 * 100};
  const auto deadline = endless ? Clock::time_point::max() : Clock::now() + timeout;
  {
    Lock lock(mutex_);
    if (orphaned_) start_worker();
    const auto here = [&] { return submitted(value) || lost(); };
    if (endless) {
      changed_.wait(lock, here);
    } else if (!changed_.wait_until(lock, deadline, here)) {
      return WaitStatus::timeout;
    }
  }
  if (lost()) return WaitStatus::lost;
  auto status = WaitStatus::lost;
  const auto refused = detail::thrown_by([&] {
    ensure_marked(value);
    if (reached(value)) {
      status = WaitStatus::ready;
    } else if (!lost()) {
      auto left = std::chrono::nanoseconds{-1};
      if (!endless) left = std::max(std::chrono::nanoseconds{0}, std::chrono::nanoseconds(deadline - Clock::now()));
      status = do_wait_host(value, left);
      if (status == WaitStatus::ready && !complete_unless_lost(value)) status = WaitStatus::lost;
    }
  });
  if (!refused) return status;
  lose_if_gone(refused);
  if (lost()) return WaitStatus::lost;
  std::rethrow_exception(refused);
}

void StreamState::flush() {
  const auto value = submitted_.load(std::memory_order_acquire);
  if (!known_reached(value)) ensure_marked(value);
}

void StreamState::complete(std::uint64_t value) noexcept { detail::atomic_max(reached_, value); }

// A device that goes on after its stream was lost does so after lose_unready() has said so.
bool StreamState::complete_unless_lost(std::uint64_t value) noexcept {
  if (lost()) return known_reached(value);
  complete(value);
  return true;
}

}  // namespace weir::spi
