// SPDX-License-Identifier: Apache-2.0
#pragma once
// Queues for those releases of a device that have no owner with a queue of its own.

#include <map>
#include <mutex>

#include "base/forks.hpp"
#include "stream/release_queue.hpp"
#include "weir/spi/fork_link.hpp"
#include "weir/spi/sync.hpp"

namespace weir::detail {

/// A queue for each device, made when it is first asked for. The queues are never destroyed, because buffers may be
/// closed during exit. So an object of this class is static and has no destructor.
class DeviceQueues {
 public:
  constexpr DeviceQueues() = default;

  [[nodiscard]] ReleaseQueue& of(const spi::DeviceState& device) {
    const std::scoped_lock lock(mutex_);
    if (!queues_) queues_ = new std::map<const spi::DeviceState*, ReleaseQueue>;
    return queues_->try_emplace(&device, device).first->second;
  }

  void fork(spi::ForkMoment moment) noexcept { hold_across_fork(mutex_, moment); }

 private:
  sync::Mutex mutex_;
  std::map<const spi::DeviceState*, ReleaseQueue>* queues_ = nullptr;
};

}  // namespace weir::detail
