// SPDX-License-Identifier: Apache-2.0
#pragma once
// Threads for work that must not run where it comes up: blocking waits, and the destruction of objects that a driver
// callback may not destroy.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>

namespace weir::cuda {

/// Runs jobs on at most `limit` threads called `name`. A thread is started when all others are busy, and ends when it
/// has nothing to do. Never destroyed, so that process exit has nothing to join.
class Background {
 public:
  Background(const char* name, std::size_t limit) : name_(name), limit_(limit) {}
  /// Queue a job. Throws when the job cannot be queued, or when the first thread for it cannot be started; then the job
  /// does not run.
  void run(std::function<void()> job);

 private:
  void work() noexcept;

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> jobs_;
  const char* name_;
  std::size_t limit_;
  std::size_t threads_ = 0;
  std::size_t idle_ = 0;
};

/// The threads for jobs that wait: as many as there are waits.
Background& waiters();
/// The one thread for jobs that only destroy something.
Background& reaper();

}  // namespace weir::cuda
