// SPDX-License-Identifier: Apache-2.0
#include "copy/staging.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/forks.hpp"
#include "base/never_ends.hpp"
#include "base/thrown_by.hpp"
#include "device/registry.hpp"
#include "stream/device_queues.hpp"
#include "stream/releases.hpp"
#include "weir/spi/block.hpp"
#include "weir/spi/resources.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::detail {
namespace {

constexpr std::size_t smallest_slot = std::size_t{64} << 10;
constexpr std::size_t most_kept = std::size_t{64} << 20;  // bytes per device

struct PerDevice {
  ResourcePtr resource;
  std::vector<Buffer> idle;  // in use by nobody
  std::size_t kept = 0;
  std::vector<Stream> helpers;
};

struct Cache {
  std::mutex mutex;
  std::optional<Stream> home;  // allocation stream of staging memory; the library's own, so no user's stays alive
  std::map<spi::DeviceState*, PerDevice> devices;
};

Cache& cache() noexcept { return never_ends<Cache>(); }

constinit DeviceQueues returning;  // staging memory on its way back to the cache

const ForkStep staging_step(4, [](spi::ForkMoment moment) noexcept {
  hold_across_fork(cache().mutex, moment);
  returning.fork(moment);
});

void keep(spi::DeviceState& device, Buffer buffer) noexcept try {
  auto& all = cache();
  const std::scoped_lock lock(all.mutex);
  auto& mine = all.devices[&device];
  if (mine.kept + buffer.size() > most_kept) return;
  const auto bytes = buffer.size();
  mine.idle.push_back(std::move(buffer));
  mine.kept += bytes;
} catch (const std::bad_alloc&) {  // then the buffer is not kept
}

}  // namespace

Buffer take_staging(spi::DeviceState& device, std::size_t bytes) {
  const auto size = std::max(smallest_slot, std::bit_ceil(bytes));
  ResourcePtr resource;
  auto& all = cache();
  {
    const std::scoped_lock lock(all.mutex);
    auto& mine = all.devices[&device];
    for (auto slot = mine.idle.begin(); slot != mine.idle.end(); ++slot) {
      if (slot->size() != size) continue;
      Buffer memory = std::move(*slot);
      mine.idle.erase(slot);
      mine.kept -= size;
      return memory;
    }
    if (!mine.resource) mine.resource = spi::make_segment_resource(device, device.staging_kind, false);
    resource = mine.resource;
    if (!all.home) all.home.emplace(Device(host_state()));
  }
  return resource->allocate(size, *all.home);
}

void recycle_staging(Buffer buffer, const Stream& stream) {
  auto& device = buffer.device().state();
  (void)stream.record();  // mark the point now, so that later work does not delay it
  buffer.use_on(stream);
  auto shared = std::make_shared<Buffer>(std::move(buffer));  // keeps the record of uses, so closing it early is safe
  auto points = shared->block()->uses();
  shared->block()->keep_uses();
  run_after(returning.of(device), std::move(points), [&device, shared] {
    shared->block()->forget_uses();
    keep(device, std::move(*shared));
  });
}

// Only the driver knows which helper is idle, and it is asked without the lock.
Stream take_helper(spi::DeviceState& device) {
  auto& all = cache();
  for (std::size_t i = 0;;) {
    std::optional<Stream> candidate;  // ends after the lock, because this may be its last owner
    std::unique_lock lock(all.mutex);
    const auto of_device = all.devices.find(&device);
    if (of_device == all.devices.end() || i >= of_device->second.helpers.size()) break;
    candidate = of_device->second.helpers[i];
    auto& state = candidate->state();
    lock.unlock();
    const bool idle = state.reached(state.position());
    lock.lock();
    const auto now = all.devices.find(&device);
    if (now == all.devices.end()) break;  // another thread had them forgotten
    auto& helpers = now->second.helpers;
    const auto found = std::find(helpers.begin(), helpers.end(), *candidate);
    if (found == helpers.end()) continue;  // another thread took it
    // Another thread may have used it meanwhile, and given it back.
    if (idle && state.known_reached(state.issued())) {
      helpers.erase(found);
      return *candidate;
    }
    ++i;
  }
  return Stream(Device(device));
}

void recycle_helper(Stream stream) {
  if (stream.state().lost()) return;
  auto& all = cache();
  const std::scoped_lock lock(all.mutex);
  all.devices[&stream.device().state()].helpers.push_back(std::move(stream));
}

void forget_staging(spi::DeviceState& device) {
  (void)thrown_by([&] { returning.of(device).drain(); });  // let memory on its way back to the cache arrive
  auto& all = cache();
  decltype(all.devices)::node_type ended;  // destroyed without the lock
  const std::scoped_lock lock(all.mutex);
  ended = all.devices.extract(&device);
}

}  // namespace weir::detail
