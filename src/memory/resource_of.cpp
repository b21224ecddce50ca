// SPDX-License-Identifier: Apache-2.0
#include "memory/resource_of.hpp"

#include <map>
#include <mutex>
#include <utility>

#include "base/forks.hpp"
#include "base/never_ends.hpp"

namespace weir::detail {
namespace {

using Make = std::shared_ptr<MemoryResource> (*)(spi::DeviceState&);

struct All {
  std::mutex mutex;
  std::map<std::pair<spi::DeviceState*, Make>, std::shared_ptr<MemoryResource>> of;
};

All& all() { return never_ends<All>(); }

const ForkStep all_step(12, [](spi::ForkMoment moment) noexcept { hold_across_fork(all().mutex, moment); });

}  // namespace

MemoryResource& resource_of(spi::DeviceState& device, Make make) {
  All& known = all();
  const std::pair key(&device, make);
  {
    const std::scoped_lock lock(known.mutex);
    if (const auto found = known.of.find(key); found != known.of.end()) return *found->second;
  }
  auto made = make(device);  // without the lock, which guards nothing else
  const std::scoped_lock lock(known.mutex);
  return *known.of.try_emplace(key, std::move(made)).first->second;
}

}  // namespace weir::detail
