// SPDX-License-Identifier: Apache-2.0
#include "stream/watcher.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "base/forks.hpp"
#include "base/library_thread.hpp"
#include "base/linger.hpp"
#include "base/never_ends.hpp"
#include "base/start_thread.hpp"
#include "weir/error.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::detail {
namespace {

void report_no_thread(std::error_code why) noexcept {
  constexpr const char* where = "release of memory";
  try {
    const auto reason = why == std::errc::not_enough_memory ? "std::bad_alloc" : why.message();
    const auto message = "no thread to wait for the last use of memory: " + reason;
    report({why, where, message});
  } catch (const std::bad_alloc&) {
    report({why, where, "no thread to wait for the last use of memory: std::bad_alloc"});
  }
}

const ForkStep watcher_step(7, [](spi::ForkMoment moment) noexcept { Watcher::get().fork(moment); });

}  // namespace

Watcher& Watcher::get() { return never_ends<Watcher>(); }

void Watcher::watch(spi::Kept timeline) noexcept {
  Lock lock(mutex_);
  list(*timeline.detach());
  const auto refused = ensure_thread();
  lock.unlock();
  if (refused) report_no_thread(refused);
}

void Watcher::post(spi::Job& job) noexcept {
  Lock lock(mutex_);
  append(job);
  const auto refused = ensure_thread();
  lock.unlock();
  if (refused) report_no_thread(refused);
}

void Watcher::list(spi::StreamState& timeline) noexcept {
  timeline.next_watched_ = std::exchange(watched_, &timeline);
  timeline.listed_ = new_ones_ = true;
}

void Watcher::inherit(spi::StreamState& timeline) noexcept { list(timeline); }

void Watcher::append(spi::Job& job) noexcept {
  job.next_job = nullptr;
  (last_job_ ? last_job_->next_job : first_job_) = &job;
  last_job_ = &job;
}

void Watcher::inherit(spi::Job& job) noexcept {
  for (const spi::Job* one = first_job_; one; one = one->next_job) {
    if (one == &job) return;
  }
  append(job);
}

void Watcher::try_again() noexcept {
  const Lock lock(mutex_);
  if (!running_ && (watched_ || first_job_)) (void)ensure_thread();
}

bool Watcher::here() noexcept {
  const Lock lock(mutex_);
  return running_ && thread_ == sync::thread_id();
}

// Needs the lock. If no thread can be started, the next caller tries again, and so does a caller that wants memory
// back.
std::error_code Watcher::ensure_thread() noexcept {
  if (running_) {
    arrived_.notify_one();
    return {};
  }
  try {
    sync::Thread thread = start_thread([this] { run(); });
    thread_ = thread.get_id();
    thread.detach();
    running_ = true;
    return {};
  } catch (const std::system_error& error) {
    return error.code();
  } catch (const std::bad_alloc&) {
    return make_error_code(std::errc::not_enough_memory);
  }
}

void Watcher::run() noexcept {
  sync::name_thread("weir watcher");
  const LibraryThread mark;
  Lock lock(mutex_);
  std::chrono::nanoseconds pause = shortest;
  for (;;) {
    run_jobs(lock);
    if (!watched_) {
      pause = shortest;
      if (!arrived_.wait_for(lock, linger.load(), [&] { return watched_ || first_job_; })) break;
      continue;
    }
    new_ones_ = false;
    const auto begin = Clock::now();
    const bool some = look(lock);
    const auto end = Clock::now();
    pause = some ? std::chrono::nanoseconds(shortest) : std::min<std::chrono::nanoseconds>(2 * pause, longest);
    if (watched_) sleep(lock, end + duty * (end - begin), pause);
    if (new_ones_) pause = shortest;
  }
  running_ = false;
}

// Run the jobs that are there. Those that come meanwhile run after the next look, however many there are.
void Watcher::run_jobs(Lock& lock) noexcept {
  const spi::Job* const newest = last_job_;
  for (bool more = newest; more;) {
    spi::Job* const job = first_job_;
    more = job != newest;
    first_job_ = job->next_job;
    if (!first_job_) last_job_ = nullptr;
    lock.unlock();
    job->run(*job);
    lock.lock();
  }
}

// Look once at each timeline, and return whether anything had passed. The list is intact whenever the lock is free, so
// that a forked child finds it intact.
bool Watcher::look(Lock& lock) noexcept {
  bool some = false;
  for (spi::StreamState** link = &watched_; *link;) {
    spi::StreamState& timeline = **link;
    lock.unlock();
    some = timeline.settle(~std::size_t{0}, true) != 0 || some;
    lock.lock();
    while (*link != &timeline) link = &(*link)->next_watched_;  // new timelines were added in front
    {
      const std::scoped_lock queue(timeline.waiting_mutex_);
      if (!timeline.waiting_.empty() && timeline.waiting_.first_value() <= timeline.watched_to_) {
        link = &timeline.next_watched_;
        continue;
      }
      timeline.watched_to_ = 0;
    }
    *link = timeline.next_watched_;
    timeline.listed_ = false;
    lock.unlock();
    timeline.unkeep();
    lock.lock();
    some = true;
  }
  return some;
}

// Sleep until it is time to look again: after `pause`, or soon after new timelines are added, but never before
// `earliest`. A job ends the sleep at once.
void Watcher::sleep(Lock& lock, Clock::time_point earliest, std::chrono::nanoseconds pause) {
  auto next = std::max(earliest, Clock::now() + pause);
  while (!first_job_ && Clock::now() < next) {
    if (new_ones_) next = std::max(earliest, std::min(next, Clock::now() + shortest));
    if (!arrived_.wait_until(lock, next, [&, seen = new_ones_] { return first_job_ || new_ones_ != seen; })) return;
  }
}

// The child does not have the thread, and starts one when it needs one. Waiters that the thread had in hand are leaked.
void Watcher::fork(spi::ForkMoment moment) noexcept {
  if (moment == spi::ForkMoment::before) return mutex_.lock();
  if (moment == spi::ForkMoment::child) {
    new (&arrived_) sync::Condition;  // the old one counts a waiter that exists only in the parent
    if (thread_ != sync::thread_id()) running_ = false;
  }
  mutex_.unlock();
}

}  // namespace weir::detail
