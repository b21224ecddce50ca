// SPDX-License-Identifier: Apache-2.0
#include "weir/spi/view.hpp"

#include <exception>
#include <mutex>

#include "base/shortage.hpp"
#include "device/registry.hpp"
#include "weir/error.hpp"
#include "weir/spi/backend.hpp"

namespace weir::spi {
namespace {

// Views are opened one at a time. A forked child that finds this locked has inherited the drivers, and is refused
// first.
constinit std::mutex opening;

}  // namespace

bool can_view(const DeviceState& device, const DeviceState& owner) noexcept {
  if (device.backend == owner.backend || device.uuid != owner.uuid || device.uuid == Uuid{}) return false;
  const auto views = device.backend->segments->views;
  return views && views(device, owner.backend->segments->exports);
}

bool can_view(const DeviceState& device, const Segment& segment) noexcept {
  return segment.viewable && can_view(device, *segment.device);
}

DeviceState* viewer_of(const DeviceState& owner, std::string_view backend) {
  for (const auto& loaded : detail::loaded_backends()) {
    if (!backend.empty() && loaded.name != backend) continue;
    for (DeviceState* device : loaded.devices) {
      if (can_view(*device, owner)) return device;
    }
  }
  return nullptr;
}

Segment& view(DeviceState& device, Segment& segment) {
  segment.device->check_process();
  device.check_process();
  if (Segment* const known = segment.view_of(device)) return *known;
  if (!can_view(device, segment)) {
    throw Error(Errc::unsupported, "memory of " + segment.device->describe() + " has no address on " +
                                       device.describe() + ": only exportable memory of the same GPU has one, " +
                                       "if it lies in the GPU and not in the host's memory");
  }
  const std::scoped_lock lock(opening);
  if (Segment* const known = segment.view_of(device)) return *known;
  try {
    Segment* const made =
        device.backend->segments->open_view(device, segment, segment.device->backend->segments->export_handle(segment));
    segment.add_view(*made);
    return *made;
  } catch (...) {
    if (!detail::is_shortage()) segment.refuse_view(device);
    throw;
  }
}

Segment* try_view(DeviceState& device, Segment& segment) noexcept {
  if (Segment* const known = segment.view_of(device)) return known;
  if (segment.refused_view(device) || !can_view(device, segment)) return nullptr;
  try {
    return &view(device, segment);
  } catch (const std::exception&) {  // the caller has another way
    return nullptr;
  }
}

}  // namespace weir::spi
