// SPDX-License-Identifier: Apache-2.0
#pragma once
// Things to do once points have passed, which must not be done on the thread of whoever finds that out: giving memory back to
// a driver may block, and so may a user's function. Each owner of such things has a queue of its own, so that it waits for
// nobody else's.

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "weir/spi/job.hpp"
#include "weir/spi/points.hpp"
#include "weir/spi/segment.hpp"

namespace weir::detail {

struct ReleaseState;

class ReleaseQueue;

/// One thing to do. Handing it over asks for no memory.
class Release {
 public:
  Release() noexcept { points_.of = this; }
  Release(const Release&) = delete;
  Release& operator=(const Release&) = delete;

 protected:
  ~Release() = default;
  /// The points after which it is done.
  [[nodiscard]] spi::Points& points() noexcept { return points_; }

 private:
  friend class ReleaseQueue;
  friend struct ReleaseState;
  struct Waiting : spi::Points {
    Release* of;
  };
  /// Do it; the object may end by that. Called without locks.
  virtual void run() noexcept = 0;

  Waiting points_;
  std::shared_ptr<ReleaseState> queue_;  // while it is there
  std::uint64_t number_ = 0;
  spi::StreamState* at_ = nullptr;  // in whose queue it stands, kept; null on the way
  std::uint64_t value_ = 0;
  Release *next_ = nullptr, *previous_ = nullptr;
};

class ReleaseQueue {
 public:
  explicit ReleaseQueue(const spi::DeviceState& device);
  ReleaseQueue(const ReleaseQueue&) = delete;
  ReleaseQueue& operator=(const ReleaseQueue&) = delete;
  ~ReleaseQueue();

  /// Have `release` done by the library's thread once its points have passed, or by whoever calls the functions below.
  void add(Release& release) noexcept;

  // In something that is being done, the following wait for nothing: it would be for that itself.

  /// Wait until everything that was handed in before this call is done. Does what it can itself. Throws
  /// what a driver throws that cannot be asked for want of memory; the library's thread goes on, then.
  void drain();
  /// Do what has passed. True when there was anything.
  bool settle() noexcept;

 private:
  friend void drain_releases(const spi::DeviceState& device) noexcept;
  static void step(Release& release) noexcept;
  static void drain(ReleaseState& state);
  std::shared_ptr<ReleaseState> state_;
};

/// Whether this thread is doing something of a queue.
[[nodiscard]] bool in_release() noexcept;

/// The functions of the same name, of all queues of that device.
void drain_releases(const spi::DeviceState& device) noexcept;
bool settle_releases(const spi::DeviceState& device) noexcept;

}  // namespace weir::detail
