// SPDX-License-Identifier: Apache-2.0
#pragma once
// Releases: actions to run once points have passed. They must not run inside the call that finds the points passed,
// because giving memory back to a driver may block, and so may a user's function. Each owner of releases has a queue of
// its own, so that it never waits for the releases of another owner.

#include <chrono>
#include <cstdint>
#include <memory>

#include "weir/spi/job.hpp"
#include "weir/spi/points.hpp"
#include "weir/spi/segment.hpp"

namespace weir::detail {

struct ReleaseState;

class ReleaseQueue;

/// One action. Adding it to a queue needs no memory.
class Release {
 public:
  Release() noexcept { points_.of = this; }
  Release(const Release&) = delete;
  Release& operator=(const Release&) = delete;

 protected:
  ~Release() = default;
  /// Return the points that must pass before run() is called.
  [[nodiscard]] spi::Points& points() noexcept { return points_; }

 private:
  friend class ReleaseQueue;
  friend struct ReleaseState;
  struct Waiting : spi::Points {
    Release* of;
  };
  /// Do the action, which may destroy this object. Called without locks.
  virtual void run() noexcept = 0;

  Waiting points_;
  std::shared_ptr<ReleaseState> queue_;  // while this is in the queue
  std::uint64_t number_ = 0;
  spi::StreamState* at_ = nullptr;  // the timeline in whose queue this waits, which is kept; null in between
  std::uint64_t value_ = 0;
  Release *next_ = nullptr, *previous_ = nullptr;
};

class ReleaseQueue {
 public:
  explicit ReleaseQueue(const spi::DeviceState& device);
  ReleaseQueue(const ReleaseQueue&) = delete;
  ReleaseQueue& operator=(const ReleaseQueue&) = delete;
  ~ReleaseQueue();

  /// Add `release`. Once its points have passed, it is run by the library's thread or by a caller of the functions
  /// below.
  void add(Release& release) noexcept;

  // When a release calls the following functions, they return at once, because they would wait for that release itself.

  /// Wait until all releases that were added before this call are done, and run those that are ready. Does not wait for
  /// a release whose point can never be observed, nor for one on a lost timeline about which nobody can be asked. Gives
  /// up at the 65th of these timelines. Throws the driver's error when the driver cannot be asked for want of memory;
  /// the library's thread then continues with the releases.
  void drain();
  /// Run the releases whose points have passed, and wait for those that other threads are running. Return true when
  /// there were any.
  bool settle() noexcept;
  /// As settle(), but if no release is ready, wait for one, no longer than `most`.
  bool settle_within(std::chrono::nanoseconds most) noexcept;

 private:
  friend void drain_releases(const spi::DeviceState& device) noexcept;
  /// Have the release wait for the next of its points. Only with `may_submit` may that submit work to make the point:
  /// it may take an application's lock around a queue, and a waiter must not.
  static void step(Release& release, bool may_submit) noexcept;
  static void drain(ReleaseState& state);
  std::shared_ptr<ReleaseState> state_;
};

/// Return whether this thread is running a release.
[[nodiscard]] bool in_release() noexcept;

/// As the functions of ReleaseQueue, for all queues of `device`. drain_releases() drops what a driver throws, and
/// settle_releases() does not wait for releases that other threads are running.
void drain_releases(const spi::DeviceState& device) noexcept;
bool settle_releases(const spi::DeviceState& device) noexcept;

/// How many releases of `device` have been done so far.
[[nodiscard]] std::uint64_t releases_done(const spi::DeviceState& device) noexcept;
/// Wait until a release of `device` has been done since releases_done() said `before`, by whichever thread, no longer
/// than `most`. Return false at once if there is none to wait for, or inside of a release.
bool await_release(const spi::DeviceState& device, std::uint64_t before, std::chrono::nanoseconds most) noexcept;

}  // namespace weir::detail
