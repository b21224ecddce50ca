// SPDX-License-Identifier: Apache-2.0
#include "pool/pool_resource.hpp"

#include <algorithm>

#include "memory/lent.hpp"

namespace weir::pool {

ResourceStats PoolResource::stats() const {
  ResourceStats stats = pool_stats().resource;
  const ResourceStats below = upstream_->stats();  // without the lock, because it may ask the driver
  stats.device_budget = below.device_budget;
  stats.device_free = below.device_free;
  return stats;
}

PoolStats PoolResource::pool_stats() const {
  PoolStats stats;
  ResourceStats& all = stats.resource;
  detail::count_lent(*this, all);  // without the lock: others than the pool keep the loans
  const Lock lock(mutex_);
  all.allocations = allocations_;
  stats.reuses = reuses_;
  for (const Shard* shard = shards_; shard; shard = shard->next) {
    shard->for_each_cache([&](const Cache& cache) {
      all.in_use += cache.in_use();
      all.live_buffers += cache.live();
      all.allocations += cache.allocations();
      all.peak_in_use = std::max<std::size_t>(all.peak_in_use, cache.peak());
      stats.reuses += cache.hits();
    });
    if (shard->caches && !shard->closed) ++stats.streams;
  }
  all.peak_in_use = std::max({all.peak_in_use, all.in_use, peak_in_use_});
  all.reserved = arena_.bytes;
  all.peak_reserved = peak_reserved_;
  stats.cached = all.reserved > all.in_use ? all.reserved - all.in_use : 0;
  stats.largest_free = static_cast<std::size_t>(arena_.everyones.largest()) * granule;
  stats.segments = pages_ ? page_count_ : arena_.regions.size();
  stats.waits = waits_;
  stats.grown = grows_;
  stats.given_back = given_back_;
  stats.moved = moved_;
  return stats;
}

void PoolResource::set_limit(std::size_t bytes) noexcept {
  const Lock lock(mutex_);
  limit_ = bytes;
}

void PoolResource::set_reuse_policy(ReusePolicy policy) noexcept {
  const Lock lock(mutex_);
  reuse_ = policy;
}

std::size_t PoolResource::in_use() const noexcept {
  std::size_t bytes = 0;
  for (const Shard* shard = shards_; shard; shard = shard->next) {
    shard->for_each_cache([&](const Cache& cache) { bytes += cache.in_use(); });
  }
  return bytes;
}

void PoolResource::fill(Shortage& shortage) const noexcept {
  shortage.in_use = in_use();
  shortage.reserved = arena_.bytes;
  shortage.largest_free = static_cast<std::size_t>(arena_.everyones.largest()) * granule;
}

}  // namespace weir::pool
