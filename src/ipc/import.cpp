// SPDX-License-Identifier: Apache-2.0
// Another process's buffer, from its descriptor.
#include <utility>

#include "device/registry.hpp"
#include "ipc/file_pairs.hpp"
#include "ipc/ready_point.hpp"
#include "ipc/wire.hpp"
#include "weir/ipc.hpp"
#include "weir/spi/resources.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir {
namespace {

// A device that belongs to the application has the same UUID as the device from which it was made. If the preferred
// device is such a device, memory is opened there, where it will be used.
spi::DeviceState& find_device(const detail::WireDescriptor& wire, spi::DeviceState& preferred) {
  const auto* segments = preferred.backend->segments;
  if (preferred.backend->name == wire.backend && preferred.uuid == wire.device && segments->imports &&
      segments->imports(preferred, wire.handle))
    return preferred;
  for (const auto& loaded : detail::loaded_backends()) {
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

void check_identity(const detail::WireDescriptor& wire, const spi::DeviceState& device) {
  if (wire.boot != detail::host_state().uuid) {
    throw Error(Errc::incompatible, "descriptor: boot id " + wire.boot.to_string() + " is of another machine or boot");
  }
  if (wire.driver != detail::wire_driver(device.driver)) {
    throw Error(Errc::incompatible, "descriptor: driver \"" + wire.driver + "\", this process has \"" +
                                        detail::wire_driver(device.driver) + "\" for " + device.describe());
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

// Opening takes no new memory. So if the driver runs out of memory, it was asked for more than there is behind the
// handle.
spi::Ref<spi::Segment> import_segment(spi::DeviceState& device, spi::ImportRequest request) {
  try {
    return spi::Ref<spi::Segment>::adopt(device.backend->segments->import_handle(device, std::move(request)));
  } catch (const Error& error) {
    if (error.code() != Errc::out_of_memory) throw;
    throw Error(Errc::corrupt_descriptor,
                std::string("descriptor: segment size or file descriptor is wrong: ") + error.what());
  }
}

}  // namespace

Buffer ipc::open(Descriptor descriptor, const Stream& stream) {
  (void)stream.state();
  const auto wire = detail::decode(descriptor.bytes());
  auto& fds = descriptor.fds_;
  if (fds.size() != wire.fd_count()) {
    throw Error(Errc::corrupt_descriptor, "descriptor: " + std::to_string(fds.size()) +
                                              " file descriptors came with it, it needs " +
                                              std::to_string(wire.fd_count()));
  }
  for (const auto& fd : fds) {
    if (!fd) throw Error(Errc::corrupt_descriptor, "descriptor: a file descriptor is missing");
  }
  auto& device = find_device(wire, stream.state().device());
  check_identity(wire, device);
  device.check_process();
  spi::StrangerFd lease;
  if (wire.has_lease) lease = std::move(fds.back());
  if (lease) detail::check_write_end(lease.get(), "lease");
  Event ready;
  if (wire.has_ready) ready = detail::receive_ready(std::move(fds[1]));
  auto segment = import_segment(device, {wire.handle, std::move(fds[0]), wire.segment_size, wire.kind, wire.read_only});
  segment->set_id(wire.segment);
  segment->lease = std::move(lease);
  stream.wait(ready);
  return spi::make_adopted_buffer(std::move(segment), wire.offset, wire.size, stream);
}

}  // namespace weir
