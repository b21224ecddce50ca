// SPDX-License-Identifier: Apache-2.0
// Streams in a forked child. The front half's state is whole there, because the fork waited for its lock and its turn;
// what is missing is the worker.
#include <new>
#include <utility>

#include "base/forks.hpp"
#include "weir/error.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::spi {

void StreamState::fork(ForkMoment moment) noexcept {
  const bool child = moment == ForkMoment::child;
  detail::hold_across_fork(waiting_mutex_, moment);
  if (child) {
    watched_ = false;  // the watcher tells those that it has
    called_ = 0;
  }
  if (!device_->backend->survives_fork) {
    if (child) lose_inherited();
    return;
  }
  if (moment == ForkMoment::before) {
    Lock lock(mutex_);
    forking_ = true;  // who wants the turn next comes after the fork: else there may always be somebody
    changed_.wait(lock, [&] { return !inside_; });
    (void)lock.release();
    return;
  }
  forking_ = false;
  if (child) {
    new (&changed_) sync::Condition;  // the parent's threads wait on the old one for ever
    next_turn_ = turn_;                       // and for turns that they never get
    if (worker_ && worker_id_ != sync::thread_id()) forget_worker();
  }
  changed_.notify_all();
  mutex_.unlock();
}

// Nobody waited for this one: a turn may last as long as its driver likes. Nothing of it is used any more.
void StreamState::lose_inherited() noexcept {
  new (&mutex_) sync::Mutex;
  new (&changed_) sync::Condition;
  turn_ = next_turn_ = 0;
  inside_ = false;
  lost_ = true;
}

void StreamState::forget_worker() noexcept {
  worker_ = false;
  calling_ = false;
  if (!queue_.empty()) forget_first();
  if (queue_.empty()) {
    kept_.fetch_sub(1);  // the worker's; if it was the last, the rest is leaked: nothing may end here
    return;
  }
  inherited_ = issued_;
  orphaned_ = true;
}

// What the worker had in its hands goes on from the beginning, if it can.
void StreamState::forget_first() noexcept {
  const auto value = queue_.front().value;
  const First first = submitted(value) ? First::over : first_.load();
  first_ = First::untouched;
  if (first == First::untouched) return;
  if (first == First::over) {
    complete(value);
    submitted_ = value;
  } else {
    error_ = std::make_exception_ptr(Error(Errc::device_lost,
                                           "a host function was running on it when this process was "
                                           "forked, and goes on in the parent only"));
    lost_ = true;
  }
  static auto& half_ended = *new std::list<Pending>;
  half_ended.splice(half_ended.end(), queue_, queue_.begin());
}

void StreamState::resume() noexcept {
  Lock lock(mutex_);
  try {
    if (orphaned_) start_worker();
  } catch (const std::exception&) {  // who asks next tries again
  }
}

}  // namespace weir::spi
