// SPDX-License-Identifier: Apache-2.0
#include "stream/watcher.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "base/forks.hpp"
#include "base/library_thread.hpp"
#include "base/never_ends.hpp"
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

const ForkStep step(7, [](spi::ForkMoment moment) noexcept { Watcher::get().fork(moment); });

}  // namespace

Watcher& Watcher::get() { return never_ends<Watcher>(); }

void Watcher::watch(spi::Kept timeline) noexcept {
  spi::StreamState* const mine = timeline.detach();
  Lock lock(mutex_);
  mine->next_watched_ = std::exchange(watched_, mine);
  new_ones_ = true;
  const auto refused = ensure_thread();
  lock.unlock();
  if (refused) report_no_thread(refused);
}

void Watcher::post(spi::Job& job) noexcept {
  Lock lock(mutex_);
  job.next_job = nullptr;
  (last_job_ ? last_job_->next_job : first_job_) = &job;
  last_job_ = &job;
  const auto refused = ensure_thread();
  lock.unlock();
  if (refused) report_no_thread(refused);
}

void Watcher::try_again() noexcept {
  const Lock lock(mutex_);
  if (!running_ && (watched_ || first_job_)) (void)ensure_thread();
}

bool Watcher::here() noexcept {
  const Lock lock(mutex_);
  return running_ && thread_ == sync::thread_id();
}

// Needs the lock. Whoever comes next, or wants memory back, tries again.
std::error_code Watcher::ensure_thread() noexcept {
  if (running_) {
    arrived_.notify_one();
    return {};
  }
  try {
    sync::Thread thread([this] { run(); });
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
  const LibraryThread mark;
  Lock lock(mutex_);
  std::chrono::nanoseconds pause = shortest;
  for (;;) {
    run_jobs(lock);
    if (!watched_) {
      pause = shortest;
      if (!arrived_.wait_for(lock, linger, [&] { return watched_ || first_job_; })) break;
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

void Watcher::run_jobs(Lock& lock) noexcept {
  while (spi::Job* const job = first_job_) {
    first_job_ = job->next_job;
    if (!first_job_) last_job_ = nullptr;
    lock.unlock();
    job->run(*job);
    lock.lock();
  }
}

// Once at each timeline; whether anything had passed. The list stays whole meanwhile, so that a forked child finds it
// so.
bool Watcher::look(Lock& lock) noexcept {
  bool some = false;
  for (spi::StreamState** link = &watched_; *link;) {
    spi::StreamState& timeline = **link;
    lock.unlock();
    some = timeline.settle() != 0 || some;
    lock.lock();
    while (*link != &timeline) link = &(*link)->next_watched_;  // new ones came in front
    {
      const std::scoped_lock queue(timeline.waiting_mutex_);
      timeline.watched_ = !timeline.waiting_.empty();
      if (timeline.watched_) {
        link = &timeline.next_watched_;
        continue;
      }
    }
    *link = timeline.next_watched_;
    lock.unlock();
    timeline.unkeep();
    lock.lock();
    some = true;
  }
  return some;
}

// Until something new has to be looked at, but not before `earliest`, or until there is a job.
void Watcher::sleep(Lock& lock, Clock::time_point earliest, std::chrono::nanoseconds pause) {
  auto next = std::max(earliest, Clock::now() + pause);
  while (!first_job_ && Clock::now() < next) {
    if (new_ones_) next = std::max(earliest, std::min(next, Clock::now() + shortest));
    if (!arrived_.wait_until(lock, next, [&, seen = new_ones_] { return first_job_ || new_ones_ != seen; })) return;
  }
}

// Without the thread, which comes back when somebody needs one. What it had in its hands is leaked. Timelines come
// before this, so that each knows whether it is watched.
void Watcher::fork(spi::ForkMoment moment) noexcept {
  if (moment == spi::ForkMoment::before) return mutex_.lock();
  if (moment == spi::ForkMoment::child) {
    new (&arrived_) sync::Condition;  // the parent's thread waits on the old one for ever
    if (thread_ != sync::thread_id()) running_ = false;
    for (auto* one = watched_; one; one = one->next_watched_) one->watched_ = true;  // others were on their way here
  }
  mutex_.unlock();
}

}  // namespace weir::detail
