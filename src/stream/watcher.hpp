// SPDX-License-Identifier: Apache-2.0
#pragma once
// The thread of the library: looks after timelines whose queues nobody else may look after, and does what must not be
// done where it comes up. It exists while there is something to do.

#include <chrono>
#include <mutex>
#include <system_error>

#include "weir/spi/fork_link.hpp"
#include "weir/spi/job.hpp"
#include "weir/spi/kept.hpp"
#include "weir/spi/sync.hpp"

namespace weir::detail {

/// Looks at each timeline in turn, ever less often while nothing passes, and never for more than one part in `duty` of
/// its time: what waits for long costs next to nothing, however much it is.
class Watcher {
 public:
  static Watcher& get();

  /// Look after what waits for that timeline until nothing does.
  void watch(spi::Kept timeline) noexcept;
  void post(spi::Job& job) noexcept;
  /// Start the thread if it could not be started before and has something to do. Another refusal is not reported again.
  void try_again() noexcept;
  /// Whether this is its thread.
  [[nodiscard]] bool here() noexcept;

  void fork(spi::ForkMoment moment) noexcept;

 private:
  using Clock = sync::Clock;
  using Lock = std::unique_lock<sync::Mutex>;
  static constexpr int duty = 200;
  static constexpr std::chrono::microseconds shortest{500};
  static constexpr std::chrono::milliseconds longest{16}, linger{50};

  std::error_code ensure_thread() noexcept;
  void run() noexcept;
  void run_jobs(Lock& lock) noexcept;
  bool look(Lock& lock) noexcept;
  void sleep(Lock& lock, Clock::time_point earliest, std::chrono::nanoseconds pause);

  sync::Mutex mutex_;
  sync::Condition arrived_;
  spi::StreamState* watched_ = nullptr;  // linked through next_watched_; only the thread takes any out
  spi::Job* first_job_ = nullptr;
  spi::Job* last_job_ = nullptr;
  bool new_ones_ = false;  // since the thread looked
  bool running_ = false;
  sync::Thread::id thread_;
};

}  // namespace weir::detail
