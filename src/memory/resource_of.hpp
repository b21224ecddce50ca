// SPDX-License-Identifier: Apache-2.0
#pragma once
// Resources of which a process has one for each device.

#include <map>
#include <memory>
#include <mutex>

#include "base/fork_mutex.hpp"
#include "base/never_ends.hpp"
#include "weir/spi/device_state.hpp"

namespace weir::detail {

/// Return the `Resource` of that device, which the first call makes. It never ends.
template <class Resource>
Resource& resource_of(spi::DeviceState& device) {
  struct All {
    ForkMutex mutex;
    std::map<spi::DeviceState*, std::shared_ptr<Resource>> of;
  };
  auto& all = never_ends<All>();
  {
    const std::scoped_lock lock(all.mutex);
    const auto known = all.of.find(&device);
    if (known != all.of.end()) return *known->second;
  }
  auto made = std::make_shared<Resource>(device);  // without the lock, which guards nothing else
  const std::scoped_lock lock(all.mutex);
  return *all.of.try_emplace(&device, std::move(made)).first->second;
}

}  // namespace weir::detail
