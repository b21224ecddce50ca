// SPDX-License-Identifier: Apache-2.0
// Streams in a forked child. The front half's state is intact there, because the fork waited for its lock and its turn.
// Only the worker is missing.
#include <new>
#include <utility>

#include "base/forks.hpp"
#include "stream/watcher.hpp"
#include "weir/error.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::spi {

void StreamState::fork(ForkMoment moment) noexcept {
  const bool child = moment == ForkMoment::child;
  detail::hold_across_fork(waiting_mutex_, moment);
  if (child) {
    // A thread of the parent was on its way there.
    if (watched_to_ != 0 && !listed_) detail::Watcher::get().inherit(*this);
    called_ = 0;
  }
  if (!device_->backend->survives_fork) {
    if (child) lose_inherited();
    return;
  }
  if (moment == ForkMoment::before) {
    Lock lock(mutex_);
    forking_ = true;  // the next turn comes after the fork, which might otherwise never find the stream free
    changed_.wait(lock, [&] { return !inside_; });
    (void)lock.release();
    return;
  }
  forking_ = false;
  if (child) {
    new (&changed_) sync::Condition;  // the old one counts waiters that exist only in the parent
    next_turn_ = turn_;               // threads of the parent never take their turns here
    if (worker_ && worker_id_ != sync::thread_id()) forget_worker();
  }
  changed_.notify_all();
  mutex_.unlock();
}

// For a backend that does not survive a fork. The fork did not wait for this stream's turn, because a turn may last as
// long as the driver likes. So nothing of the stream is used any more.
void StreamState::lose_inherited() noexcept {
  new (&mutex_) sync::Mutex;
  new (&changed_) sync::Condition;
  turn_ = next_turn_ = 0;
  inside_ = false;
  goes_on_ = false;  // the device goes on in the parent only
  lost_ = true;
}

void StreamState::forget_worker() noexcept {
  worker_ = false;
  calling_ = false;
  if (!queue_.empty()) forget_first();
  if (queue_.empty()) {
    kept_.fetch_sub(1);  // the worker's count; if it was the last, the stream is leaked: nothing may end here
    return;
  }
  inherited_ = issued_;
  orphaned_ = true;
}

// Decide about the operation that the worker had in hand. It starts again from the beginning if it may, and counts as
// complete if it was over. Otherwise the timeline is lost.
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
  } catch (const std::exception&) {  // the next caller that asks tries again
  }
}

}  // namespace weir::spi
