// SPDX-License-Identifier: Apache-2.0
#include "lane_table.hpp"

#include <algorithm>
#include <mutex>
#include <vector>

namespace weir::cuda {

namespace {

HeldLane hold(Lane& lane) noexcept {
  lane.holders.fetch_add(1, std::memory_order_relaxed);
  lane.used_lately = true;
  return HeldLane::adopt(&lane);
}

}  // namespace

HeldLane LaneTable::find(const StreamKey& key) noexcept {
  Stripe& stripe = of(key);
  const std::scoped_lock guard(stripe.lock);
  const auto found = stripe.lanes.find(key);
  return found == stripe.lanes.end() ? HeldLane{} : hold(*found->second);
}

HeldLane LaneTable::add(std::unique_ptr<Lane> made) {
  Stripe& stripe = of(made->key);
  std::vector<std::unique_ptr<Lane>> ended;
  HeldLane held;
  {
    const std::scoped_lock guard(stripe.lock);
    if (stripe.lanes.size() >= stripe.sweep_at) ended = sweep(stripe);
    const auto [place, is_new] = stripe.lanes.try_emplace(made->key, nullptr);
    if (is_new) place->second = std::move(made);
    held = hold(*place->second);
  }
  for (auto& lane : ended) {
    if (!lane->can_end()) put_back(std::move(lane));
  }
  return held;
}

// For a lane that cannot end now. If its stream has got another one meanwhile, or there is no memory, it ends all the
// same.
void LaneTable::put_back(std::unique_ptr<Lane> lane) noexcept {
  Stripe& stripe = of(lane->key);
  try {
    const std::scoped_lock guard(stripe.lock);
    const auto [place, is_new] = stripe.lanes.try_emplace(lane->key, nullptr);
    if (is_new) place->second = std::move(lane);
    stripe.sweep_at = std::max(stripe.sweep_at, 2 * stripe.lanes.size());  // else each new lane would sweep again
  } catch (const std::bad_alloc&) {
  }
}

// A lane that nobody holds can gain a holder only under the lock. First those end that were not used since the last
// sweep; if that is not enough, all that nobody holds. As many lanes again may come before the next sweep, so that each
// new lane pays for looking at a few.
std::vector<std::unique_ptr<Lane>> LaneTable::sweep(Stripe& stripe) {
  std::vector<std::unique_ptr<Lane>> ended;
  ended.reserve(stripe.lanes.size());
  const auto end = [&](bool also_lately) {
    for (auto at = stripe.lanes.begin(); at != stripe.lanes.end();) {
      Lane& lane = *at->second;
      const bool idle = lane.holders.load(std::memory_order_acquire) == 0;
      const bool lately = std::exchange(lane.used_lately, false);
      if (!idle || (lately && !also_lately)) {
        ++at;
        continue;
      }
      ended.push_back(std::move(at->second));
      at = stripe.lanes.erase(at);
    }
  };
  end(false);
  if (2 * stripe.lanes.size() > stripe.sweep_at) end(true);
  stripe.sweep_at = std::max(most_idle, 2 * stripe.lanes.size());
  return ended;
}

std::size_t LaneTable::size() noexcept {
  std::size_t sum = 0;
  for (Stripe& stripe : stripes_) {
    const std::scoped_lock guard(stripe.lock);
    sum += stripe.lanes.size();
  }
  return sum;
}

void LaneTable::for_each(const std::function<void(Lane&)>& function) {
  for (Stripe& stripe : stripes_) {
    for (auto& [key, lane] : stripe.lanes) function(*lane);
  }
}

}  // namespace weir::cuda
