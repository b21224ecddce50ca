// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is to be done for a device, and has no owner with a queue of its own.

#include <map>
#include <mutex>

#include "base/forks.hpp"
#include "stream/release_queue.hpp"
#include "weir/spi/fork_link.hpp"
#include "weir/spi/sync.hpp"

namespace weir::detail {

/// A queue for each device, made when it is first asked for. They never end: buffers may be closed during exit. So this
/// is a static object, without a destructor.
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
