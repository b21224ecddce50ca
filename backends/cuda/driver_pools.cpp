// SPDX-License-Identifier: Apache-2.0
#include "driver_pools.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "device.hpp"
#include "driver_pool.hpp"

namespace weir::cuda {

DriverPools::DriverPools(const Gpu& gpu) : ends_(gpu) {}

void DriverPools::add(const std::shared_ptr<DriverPool>& pool) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(pools_,
                [&](const auto& one) { return one.expired() || (!one.owner_before(pool) && !pool.owner_before(one)); });
  pools_.push_back(pool);
}

std::size_t DriverPools::count() noexcept {
  const std::scoped_lock lock(mutex_);
  return static_cast<std::size_t>(std::ranges::count_if(pools_, [](const auto& one) { return !one.expired(); }));
}

bool DriverPools::release_unused() noexcept try {
  std::vector<std::shared_ptr<DriverPool>> alive;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& one : pools_) {
      if (auto pool = one.lock()) alive.push_back(std::move(pool));
    }
  }
  bool some = ends_.settle();
  for (const auto& pool : alive) some = pool->release_unused() || some;
  return some || ends_.settle_within(std::chrono::seconds{1});
} catch (const std::bad_alloc&) {
  return false;
}

}  // namespace weir::cuda
