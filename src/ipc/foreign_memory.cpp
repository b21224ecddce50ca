// SPDX-License-Identifier: Apache-2.0
#include "ipc/foreign_memory.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "device/registry.hpp"
#include "weir/error.hpp"
#include "weir/spi/backend.hpp"

namespace weir::detail {
namespace {

// A device that belongs to the application has the same UUID as the device from which it was made. If the preferred
// device is such a device, memory is opened there, where it will be used.
spi::DeviceState& find_device(const WireDescriptor& wire, spi::DeviceState& preferred) {
  const auto* segments = preferred.backend->segments;
  if (preferred.backend->name == wire.backend && preferred.uuid == wire.device && segments->imports &&
      segments->imports(preferred, wire.handle))
    return preferred;
  for (const auto& loaded : loaded_backends()) {
    if (loaded.name != wire.backend) continue;
    for (auto* state : loaded.devices) {
      if (state->uuid == wire.device) return *state;
    }
    throw Error(Errc::incompatible, "descriptor: its device " + wire.device.to_string() + " of backend " +
                                        wire.backend + " is not visible in this process" +
                                        (loaded.reason.empty() ? "" : ": " + loaded.reason));
  }
  throw Error(Errc::corrupt_descriptor, "descriptor: backend \"" + wire.backend + "\" is unknown");
}

void check_identity(const WireDescriptor& wire, const spi::DeviceState& device) {
  if (wire.boot != host_state().uuid) {
    throw Error(Errc::incompatible, "descriptor: boot id " + wire.boot.to_string() + " is of another machine or boot");
  }
  if (wire.driver != wire_driver(device.driver)) {
    throw Error(Errc::incompatible, "descriptor: driver \"" + wire.driver + "\", this process has \"" +
                                        wire_driver(device.driver) + "\" for " + device.describe());
  }
  const auto* segments = device.backend->segments;
  if (!segments->imports || !segments->imports(device, wire.handle)) {
    throw Error(Errc::incompatible, "descriptor: handle kind " + std::to_string(static_cast<int>(wire.handle)) +
                                        " cannot be opened on " + device.describe());
  }
  const KindInfo* info = device.find(wire.kind);
  if (!info || !info->exportable) {
    throw Error(Errc::corrupt_descriptor, "descriptor: memory kind " + std::string(to_string(wire.kind)) + " of " +
                                              device.describe() + " is never exported");
  }
}

spi::Ref<spi::Segment> import(spi::DeviceState& device, const WireDescriptor& wire, spi::StrangerFd& file,
                              std::size_t bytes, bool part) {
  const spi::ImportRequest request{wire.handle, file, bytes, wire.kind, wire.read_only, part};
  return spi::Ref<spi::Segment>::adopt(device.backend->segments->import_handle(device, request));
}

// The peer is believed only where the backend does not know the memory by itself.
void name(spi::Segment& segment, spi::SegmentId id) noexcept {
  if (!segment.known_as(segment)) segment.set_id(id);
}

// Whoever joins the same parts in the same order gives them the same name.
spi::SegmentId name_of(std::span<spi::Segment* const> parts) {
  constexpr std::uint64_t prime = 0x100000001b3;  // FNV-1a's
  spi::SegmentId all;
  for (spi::Segment* const part : parts) {
    const spi::SegmentId id = part->id();
    all = {all.high * prime ^ id.high, all.low * prime ^ id.low};
  }
  if (all.low == 0) all.low = 1;
  return all;
}

auto joining(const spi::DeviceState& device) {
  const auto join = device.backend->segments->join;
  if (!join)
    throw Error(Errc::corrupt_descriptor, "descriptor: memory of " + device.describe() + " never has several parts");
  return join;
}

spi::Ref<spi::Segment> open_parts(spi::DeviceState& device, const WireDescriptor& wire,
                                  std::span<spi::StrangerFd> files) {
  const auto join = joining(device);
  std::vector<spi::Ref<spi::Segment>> parts;
  std::vector<spi::Segment*> each;
  for (std::size_t i = 0; i < wire.parts.size(); ++i) {
    spi::StrangerFd file = files[i].duplicate();  // if a later one fails, the caller still has all of them
    parts.push_back(import(device, wire, file, wire.parts[i], true));
    each.push_back(parts.back().get());
  }
  return spi::Ref<spi::Segment>::adopt(join(device, each));
}

}  // namespace

spi::DeviceState& device_of(const WireDescriptor& wire, spi::DeviceState& preferred) {
  auto& device = find_device(wire, preferred);
  check_identity(wire, device);
  device.check_process();
  return device;
}

spi::Ref<spi::Segment> open_memory(spi::DeviceState& device, const WireDescriptor& wire,
                                   std::span<spi::StrangerFd> files) {
  auto segment = wire.parts.empty() ? import(device, wire, files.front(), wire.segment_size, false)
                                    : open_parts(device, wire, files);
  name(*segment, wire.segment);
  return segment;
}

spi::Ref<spi::Segment> open_part(spi::DeviceState& device, const WireDescriptor& wire, spi::StrangerFd& file) {
  auto part = import(device, wire, file, wire.segment_size, true);
  name(*part, wire.segment);
  return part;
}

spi::Ref<spi::Segment> join_memory(spi::DeviceState& device, std::span<spi::Segment* const> parts) {
  auto segment = spi::Ref<spi::Segment>::adopt(joining(device)(device, parts));
  name(*segment, name_of(parts));
  return segment;
}

}  // namespace weir::detail
