// SPDX-License-Identifier: Apache-2.0
#include "staging.hpp"

#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backend_registry.hpp"
#include "reclaim.hpp"
#include "weir/spi/block.hpp"

namespace weir::detail {
namespace {

constexpr std::size_t smallest_slot = std::size_t{64} << 10;
constexpr std::size_t most_kept = std::size_t{64} << 20;  // bytes per device

struct PerDevice {
  ResourcePtr resource;
  std::vector<Buffer> idle;  // used by nobody
  std::size_t kept = 0;
  std::vector<Stream> helpers;
};

struct Cache {
  std::mutex mutex;
  std::map<spi::DeviceState*, PerDevice> devices;
};

Cache& cache() {
  static auto& instance = *new Cache;  // leaked: copies may be put on streams during exit
  return instance;
}

// Where staging memory is allocated: a stream of nobody, so that it keeps no user's stream alive.
const Stream& home() {
  static const auto& stream = *new Stream(Device(host_state()));
  return stream;
}

void keep(spi::DeviceState& device, Buffer buffer) noexcept try {
  auto& all = cache();
  const std::scoped_lock lock(all.mutex);
  auto& mine = all.devices[&device];
  if (mine.kept + buffer.size() > most_kept) return;
  const auto bytes = buffer.size();
  mine.idle.push_back(std::move(buffer));
  mine.kept += bytes;
} catch (const std::bad_alloc&) {  // not kept, then
}

}  // namespace

Buffer take_staging(spi::DeviceState& device, std::size_t bytes) {
  const auto size = std::max(smallest_slot, std::bit_ceil(bytes));
  ResourcePtr resource;
  {
    auto& all = cache();
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
  }
  return resource->allocate(size, home());
}

void recycle_staging(Buffer buffer, const Stream& stream) {
  auto& device = buffer.device().state();
  (void)stream.record();  // now, so that later work does not delay it
  buffer.use_on(stream);
  auto shared = std::make_shared<Buffer>(std::move(buffer));  // keeps its record: closing it early is safe
  run_after(device, shared->block()->uses(), [&device, shared] {
    shared->block()->forget_points();
    keep(device, std::move(*shared));
  });
}

Stream take_helper(spi::DeviceState& device) {
  {
    auto& all = cache();
    const std::scoped_lock lock(all.mutex);
    auto& helpers = all.devices[&device].helpers;
    for (auto helper = helpers.begin(); helper != helpers.end(); ++helper) {
      if (!helper->state().reached(helper->state().position())) continue;
      Stream idle = *helper;
      helpers.erase(helper);
      return idle;
    }
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
  drain_releases(device);  // what is on its way back to the cache arrives
  auto& all = cache();
  decltype(all.devices)::node_type ended;  // destroyed without the lock
  const std::scoped_lock lock(all.mutex);
  ended = all.devices.extract(&device);
}

}  // namespace weir::detail
