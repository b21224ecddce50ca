// SPDX-License-Identifier: Apache-2.0
#pragma once
// The library's thread. It looks after timelines whose waiters might otherwise never be called, and runs jobs that must
// not run where they come up. It exists while there is something to do.

#include <chrono>
#include <mutex>
#include <system_error>

#include "weir/spi/fork_link.hpp"
#include "weir/spi/job.hpp"
#include "weir/spi/kept.hpp"
#include "weir/spi/sync.hpp"

namespace weir::detail {

/// Looks at each timeline in turn, and ever less often while nothing passes. It spends at most one part in `duty` of
/// its time on looking, so that long waits cost next to nothing, however many there are.
class Watcher {
 public:
  static Watcher& get();

  /// Look after the waiters of `timeline` until there are none.
  void watch(spi::Kept timeline) noexcept;
  void post(spi::Job& job) noexcept;
  /// Start the thread if it has something to do and could not be started before. A further refusal is not reported.
  void try_again() noexcept;
  /// Return whether the caller is the library's thread.
  [[nodiscard]] bool here() noexcept;

  // For handlers of a forked child that run while this object's lock is held. They start no thread.

  /// See to it that `job` is in the list, which somebody had posted or was about to post.
  void inherit(spi::Job& job) noexcept;
  /// Do for the caller of watch(), which exists in the parent only, what it was about to do.
  void inherit(spi::StreamState& timeline) noexcept;
  void fork(spi::ForkMoment moment) noexcept;

 private:
  using Clock = sync::Clock;
  using Lock = std::unique_lock<sync::Mutex>;
  static constexpr int duty = 200;
  static constexpr std::chrono::microseconds shortest{500};
  static constexpr std::chrono::milliseconds longest{16};

  void append(spi::Job& job) noexcept;
  void list(spi::StreamState& timeline) noexcept;
  std::error_code ensure_thread() noexcept;
  void run() noexcept;
  void run_jobs(Lock& lock) noexcept;
  bool look(Lock& lock) noexcept;
  void sleep(Lock& lock, Clock::time_point earliest, std::chrono::nanoseconds pause);

  sync::Mutex mutex_;
  sync::Condition arrived_;
  spi::StreamState* watched_ = nullptr;  // linked through next_watched_; only the thread removes timelines
  spi::Job* first_job_ = nullptr;
  spi::Job* last_job_ = nullptr;
  bool new_ones_ = false;  // timelines were added since the thread last looked
  bool running_ = false;
  sync::Thread::id thread_;
};

}  // namespace weir::detail
