// SPDX-License-Identifier: Apache-2.0
#include "staging.hpp"

#include <bit>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "backend_registry.hpp"
#include "weir/spi/block.hpp"

namespace weir::detail {
namespace {

constexpr std::size_t smallest_slot = std::size_t{64} << 10;
constexpr std::size_t most_kept = std::size_t{64} << 20;  // bytes per device

struct Slot {
  Buffer memory;
  Event last_use;
};

struct PerDevice {
  ResourcePtr resource;
  std::vector<Slot> slots;
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

void forget_past(Slot& slot) {
  if (!slot.last_use.done()) return;
  slot.last_use = {};
  (void)slot.memory.block()->take_points();
}

}  // namespace

Buffer take_staging(spi::DeviceState& device, std::size_t bytes) {
  const auto size = std::max(smallest_slot, std::bit_ceil(bytes));
  ResourcePtr resource;
  {
    auto& all = cache();
    const std::scoped_lock lock(all.mutex);
    auto& mine = all.devices[&device];
    for (Slot& slot : mine.slots) forget_past(slot);
    for (auto slot = mine.slots.begin(); slot != mine.slots.end(); ++slot) {
      if (slot->memory.size() != size || slot->last_use.timeline()) continue;
      Buffer memory = std::move(slot->memory);
      mine.slots.erase(slot);
      mine.kept -= size;
      return memory;
    }
    if (!mine.resource) mine.resource = spi::make_segment_resource(device, device.staging_kind, false);
    resource = mine.resource;
  }
  return resource->allocate(size, home());
}

void recycle_staging(Buffer buffer, const Stream& stream) {
  auto& state = buffer.device().state();
  Event last_use = stream.record();
  buffer.use_on(stream);
  auto& all = cache();
  const std::scoped_lock lock(all.mutex);
  auto& mine = all.devices[&state];
  if (mine.kept + buffer.size() > most_kept) return;  // closed in stream order
  mine.kept += buffer.size();
  mine.slots.push_back({std::move(buffer), std::move(last_use)});
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
  auto& all = cache();
  decltype(all.devices)::node_type ended;  // destroyed without the lock
  const std::scoped_lock lock(all.mutex);
  ended = all.devices.extract(&device);
  for (auto& [other, mine] : all.devices) {
    for (Slot& slot : mine.slots) forget_past(slot);
  }
}

}  // namespace weir::detail
