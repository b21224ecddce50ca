// SPDX-License-Identifier: Apache-2.0
#include "weir/ipc.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/file_closer.hpp"
#include "device/registry.hpp"
#include "ipc/file_pairs.hpp"
#include "ipc/leases.hpp"
#include "ipc/ready_point.hpp"
#include "ipc/wire.hpp"
#include "weir/spi/block.hpp"
#include "weir/spi/resources.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir {
namespace {

std::size_t alignment_of(std::uint64_t offset) {
  return offset == 0 ? default_alignment
                     : std::min<std::uint64_t>(std::uint64_t{1} << std::countr_zero(offset), default_alignment);
}

// An application's device has the UUID of the one that it was made of. There memory is opened where it will be used.
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

// Opening takes no new memory, so a driver that runs out of it was asked for more than there is behind the handle.
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

ipc::Descriptor Buffer::ipc_descriptor(const Stream& stream) const {
  const auto place = location();
  (void)stream.state();
  if (!place.segment || size() == 0) {
    throw Error(Errc::invalid_argument, "Buffer::ipc_descriptor: a buffer of zero bytes has no memory to share");
  }
  spi::Segment& segment = *place.segment;
  auto& state = *segment.device;
  const MemoryResource& resource = *block()->resource;
  const bool shares = segment.imported || resource.is_exportable();  // a pool may not, of memory that could
  if (!shares || !segment.exportable || !state.backend->segments->export_handle) {
    throw Error(Errc::unsupported, "Buffer::ipc_descriptor: memory of " + memory_resource()->name() +
                                       " was not made exportable; make the resource with exportable = true");
  }
  order_after_uses(stream);
  const Event ready = stream.record();
  detail::WireDescriptor wire;
  auto exported = state.backend->segments->export_handle(segment);
  wire.handle = exported.kind;
  wire.kind = segment.kind;
  wire.read_only = segment.read_only;
  wire.device = state.uuid;
  wire.boot = detail::host_state().uuid;
  wire.segment = segment.id();
  wire.segment_size = segment.size;
  wire.offset = place.offset;
  wire.size = size();
  wire.alignment = alignment_of(place.offset);
  wire.backend = state.backend->name;
  wire.driver = detail::wire_driver(state.driver);
  std::vector<spi::UniqueFd> fds;
  fds.push_back(std::move(exported.fd));
  spi::StrangerFd lease;
  if (segment.lease) lease = segment.lease.duplicate();
  if (resource.reuses_memory()) lease = detail::grant_lease(share());
  if (!ready.done()) {
    fds.push_back(detail::send_ready(stream));
    wire.has_ready = true;
  }
  const std::size_t own = fds.size();
  if (lease) {
    fds.push_back(lease.trust());
    wire.has_lease = true;
  }
  ipc::Descriptor descriptor(detail::encode(wire), std::move(fds));
  descriptor.own_ = own;
  return descriptor;
}

ipc::Descriptor::Descriptor(std::span<const std::byte> bytes, std::vector<spi::UniqueFd> fds) : fds_(std::move(fds)) {
  try {
    bytes_.assign(bytes.begin(), bytes.end());
  } catch (...) {
    close();
    throw;
  }
}

ipc::Descriptor& ipc::Descriptor::operator=(Descriptor&& other) noexcept {
  if (this == &other) return *this;
  close();
  bytes_ = std::move(other.bytes_);
  fds_ = std::move(other.fds_);
  own_ = other.own_;
  return *this;
}

ipc::Descriptor::~Descriptor() { close(); }

void ipc::Descriptor::close() noexcept {
  detail::close_apart(fds_, own_);
  fds_.clear();
}

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
