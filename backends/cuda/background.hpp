// SPDX-License-Identifier: Apache-2.0
#pragma once
// Threads for what must not happen where it comes up: blocking waits, and the end of objects that a driver callback
// may not destroy.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>

namespace weir::cuda {

/// Runs jobs on at most `limit` threads, started when all are busy and ended when they have nothing to do. Never
/// destroyed, so that process exit has nothing to join.
class Background {
 public:
  explicit Background(std::size_t limit) noexcept : limit_(limit) {}
  /// Throws when the job cannot be queued or its first thread cannot be started; then it will not run.
  void run(std::function<void()> job);

 private:
  void work() noexcept;

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> jobs_;
  std::size_t limit_;
  std::size_t threads_ = 0;
  std::size_t idle_ = 0;
};

/// For jobs that wait: as many threads as there are waits.
Background& waiters();
/// For jobs that only destroy something.
Background& reaper();

}  // namespace weir::cuda
