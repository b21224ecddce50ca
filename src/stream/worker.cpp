// SPDX-License-Identifier: Apache-2.0
// The worker thread of a stream, which exists while work is held back. It does the waits that must happen on the host,
// runs host functions, and submits the rest in order.
#include <algorithm>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "base/atomic_max.hpp"
#include "base/linger.hpp"
#include "base/reports_later.hpp"
#include "base/start_thread.hpp"
#include "base/thrown_by.hpp"
#include "weir/error.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::spi {

// Needs the lock. Throws when the system cannot start a thread.
void StreamState::start_worker() {
  changed_.notify_all();  // a worker looks at the queue once it gets the lock
  if (worker_) return;
  try {
    sync::Thread worker = detail::start_thread([self = Kept(*this)]() mutable { self.detach()->work(); });
    worker_id_ = worker.get_id();
    worker.detach();
  } catch (const std::system_error& error) {
    throw Error(error.code(), "stream " + std::to_string(id_) + " on " + device_->describe() +
                                  ": no thread for work that is held back: " + error.what());
  }
  if (orphaned_.exchange(false)) unkeep();  // the count of the lost worker; the caller's and the new one's remain
  worker_ = true;
}

void StreamState::work() noexcept {
  sync::name_thread("weir worker");
  Lock lock(mutex_);
  for (;;) {
    if (queue_.empty() && !changed_.wait_for(lock, detail::linger.load(), [&] { return !queue_.empty(); })) break;
    Pending& pending = queue_.front();  // stays in the queue until it is submitted, so that nothing overtakes it
    std::list<Pending> over;
    lock.unlock();
    if (!lost()) {
      try {
        submit_held(pending.op, pending.value, over);
      } catch (...) {
        lose(std::current_exception());
      }
    }
    if (over.empty()) await_space(pending.op, pending.value);
    if (auto* free = std::get_if<FreeOp>(&pending.op); free && free->segment && lost())
      free_later(*free, pending.value);
    if (over.empty()) {
      first_ = First::over;
      lock.lock();
      end_first(over);
      lock.unlock();
    }
    over.clear();
    lock.lock();
  }
  worker_ = false;
  lock.unlock();
  unkeep();
}

// Needs the lock. Move the first operation of the queue to `over`, where what it owns ends without the lock. This is
// done together with what says that the operation is submitted: whoever knows that finds the queue without it, puts his
// next operation himself and is told of a refusal.
void StreamState::end_first(std::list<Pending>& over) noexcept {
  over.splice(over.end(), queue_, queue_.begin());
  first_ = First::untouched;
}

// Memory that was to be used after `op` is not free before what `op` waits for is over, although this timeline is lost.
void StreamState::await_space(const Op& op, std::uint64_t value) noexcept {
  const auto* const wait = std::get_if<WaitOp>(&op);
  if (wait && wait->for_space && lost() && !wait->other->await_over(wait->value)) never_free_from(value);
}

// An operation that was accepted has to be carried out. So if a timeline cannot answer now, because it is being
// captured or there is no memory, it is asked again later.
template <class Action>
void StreamState::until_possible(const Action& action) {
  for (unsigned round = 0;; ++round) {
    try {
      return action();
    } catch (const Error& error) {
      if (error.code() != Errc::unsupported && error.code() != Errc::out_of_memory) throw;
    } catch (const std::bad_alloc&) {
    }
    sync::pause(round);
  }
}

// Called on the worker, without the turn. All waits that must happen on the host happen here.
void StreamState::submit_held(Op& op, std::uint64_t value, std::list<Pending>& over) {
  if (auto* call = std::get_if<CallOp>(&op); call && !calls_natively()) return run_call(*call, value, over);
  const auto* const wait = std::get_if<WaitOp>(&op);
  bool natively = wait && waits_natively(*wait->other);
  for (;;) {
    if (wait && (await_point(*wait, natively) || !natively || wait->other->reached(wait->value))) {
      const Lock lock(mutex_);
      detail::atomic_max(submitted_, value);
      end_first(over);
      changed_.notify_all();
      return;
    }
    if (submit_in_turn(op, value, over)) return;
    natively = false;
  }
}

// Block until the driver has the point, or, not `natively`, until it is reached. Return whether a wait for space is
// over although its point will never be reached.
bool StreamState::await_point(const WaitOp& wait, bool natively) {
  StreamState& other = *wait.other;
  if (!wait.for_space) other.device().check_process();  // a driver of the parent can never be asked
  // A stream that was handed out meanwhile takes a wait for another backend before that has the point, as in put().
  if (natively && other.device().backend != device_->backend) return false;
  bool passed = false;
  until_possible([&] {
    const bool alive = natively ? other.wait_submitted(wait.value)
                                : other.wait_for(wait.value, std::chrono::nanoseconds{-1}) == WaitStatus::ready;
    passed = !alive && wait.for_space && other.await_over(wait.value);
    if (!alive && !passed) other.throw_if_lost();
    if (natively && !passed) other.ensure_marked(wait.value);
  });
  return passed;
}

// Return false for a wait that the driver must not have now.
bool StreamState::submit_in_turn(Op& op, std::uint64_t value, std::list<Pending>& over) {
  const detail::ReportsLater later;  // than the turn: the user's sink may call this stream
  Lock lock(mutex_);
  take_turn(lock);
  const auto* const wait = std::get_if<WaitOp>(&op);
  const bool is_lost = lost();  // it became lost meanwhile, and what `op` names may be gone
  if (is_lost || (wait && !may_wait_now(*wait))) {
    end_turn(lock);
    return is_lost;
  }
  lock.unlock();
  const auto refused = detail::thrown_by([&] { submit(op, value); });
  const bool newly_lost = refused && become_lost(refused);  // before anybody can mark beyond the refused operation
  lock.lock();
  if (!refused) {
    detail::atomic_max(submitted_, value);
    end_first(over);
  }
  end_turn(lock);
  lock.unlock();
  if (newly_lost) report_lost();
  return true;
}

void StreamState::run_call(CallOp& op, std::uint64_t value, std::list<Pending>& over) {
  if (value > 1) {
    until_possible([&] {
      if (wait_for(value - 1, std::chrono::nanoseconds{-1}) != WaitStatus::ready) throw_if_lost();
    });
  }
  {
    const Lock lock(mutex_);
    if (lost()) return;
    calling_ = true;
  }
  if (!op.repeatable) first_ = First::called;
  try {
    op.function();
  } catch (const std::exception& error) {
    report({{}, "Stream::call", error.what()});
  } catch (...) {
    report({{}, "Stream::call", "unknown exception"});
  }
  first_ = First::over;
  op.function = nullptr;  // what the function owned ends before the point is reached
  const Lock lock(mutex_);
  calling_ = false;
  detail::atomic_max(submitted_, value);
  end_first(over);
  complete(value);
  changed_.notify_all();
}

}  // namespace weir::spi
