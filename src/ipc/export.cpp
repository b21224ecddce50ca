// SPDX-License-Identifier: Apache-2.0
// A buffer's descriptor, for another process.
#include <algorithm>
#include <bit>
#include <utility>

#include "device/registry.hpp"
#include "ipc/exporting.hpp"
#include "ipc/leases.hpp"
#include "ipc/ready_point.hpp"
#include "ipc/wire.hpp"
#include "weir/ipc.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/block.hpp"
#include "weir/spi/paged_segment.hpp"

namespace weir {
namespace {

std::size_t alignment_of(std::uint64_t offset) {
  return offset == 0 ? default_alignment
                     : std::min<std::uint64_t>(std::uint64_t{1} << std::countr_zero(offset), default_alignment);
}

}  // namespace

void detail::check_access(const char* operation, const spi::DeviceState& device, ipc::Access access) {
  if (access == ipc::Access::read_write || device.backend->segments->export_to_readers) return;
  throw Error(Errc::unsupported, std::string(operation) + ": memory of " + device.describe() +
                                     " cannot be lent for reading alone: a process that opens memory of backend " +
                                     std::string(device.backend->name) +
                                     " can always write it. Lend it writable, or lend a copy in shared host memory");
}

ipc::Access detail::granted(const spi::Segment& segment, ipc::Access asked) noexcept {
  return segment.read_only || segment.peers_read_only ? ipc::Access::read_only : asked;
}

void detail::check_shareable(const char* operation, const Buffer& buffer, ipc::Access access) {
  const auto place = buffer.location();
  if (!place.segment || buffer.size() == 0) {
    throw Error(Errc::invalid_argument,
                std::string(operation) + ": a buffer of zero bytes has no memory to share");
  }
  const spi::Segment& segment = *place.segment;
  const MemoryResource& resource = *buffer.block()->resource;
  const bool shares = segment.imported || resource.is_exportable();  // a pool may not, although its memory could
  if (!shares || !segment.exportable || !segment.device->backend->segments->export_handle) {
    throw Error(Errc::unsupported, std::string(operation) + ": memory of " + buffer.memory_resource()->name() +
                                       " was not made exportable; make the resource with exportable = true");
  }
  check_access(operation, *segment.device, access);
}

detail::SharedPlace detail::shared_place(const char* operation, const Buffer& buffer) {
  const auto [segment, offset] = buffer.location();
  spi::PagedSegment* const pages = segment->paged();
  if (!pages) return {segment, offset, {}};
  auto shared = pages->share(offset, buffer.size());
  if (const auto parts = shared.segment->parts().size(); parts > most_wire_parts) {
    throw Error(Errc::unsupported, std::string(operation) + ": the buffer lies in " + std::to_string(parts) +
                                       " pages of " + buffer.memory_resource()->name() + "; " +
                                       std::to_string(most_wire_parts) +
                                       " can go to another process. Make the pool with paged = false, or take large "
                                       "buffers from a pool of their own");
  }
  return {shared.segment.get(), shared.offset, shared.segment};
}

detail::Described detail::describe_memory(spi::Segment& segment, ipc::Access asked) {
  const auto& state = *segment.device;
  const spi::SegmentOps& segments = *state.backend->segments;
  WireDescriptor wire;
  wire.kind = segment.kind;
  wire.read_only = granted(segment, asked) == ipc::Access::read_only;
  wire.device = state.uuid;
  wire.boot = host_state().uuid;
  wire.segment = segment.id();
  wire.segment_size = wire.size = segment.size;
  wire.alignment = alignment_of(0);
  wire.backend = state.backend->name;
  wire.driver = wire_driver(state.driver);
  const bool readers = wire.read_only && segments.export_to_readers;
  const auto export_part = readers ? segments.export_to_readers : segments.export_handle;
  std::vector<spi::UniqueFd> files;
  const auto add = [&](spi::Segment& part) {
    auto exported = export_part(part);
    wire.handle = exported.kind;
    files.push_back(std::move(exported.fd));
  };
  for (const auto& part : segment.parts()) {
    add(*part);
    wire.parts.push_back(part->size);
  }
  if (files.empty()) add(segment);
  return {std::move(wire), std::move(files)};
}

ipc::Descriptor Buffer::ipc_descriptor(const Stream& stream, ipc::Access access) const {
  (void)stream.state();
  detail::check_shareable("Buffer::ipc_descriptor", *this, access);
  const auto place = detail::shared_place("Buffer::ipc_descriptor", *this);
  spi::Segment& segment = *place.segment;
  const MemoryResource& resource = *block()->resource;
  order_after_uses(stream);
  const Event ready = stream.record();
  auto [wire, fds] = detail::describe_memory(segment, access);
  wire.offset = place.offset;
  wire.size = size();
  wire.alignment = alignment_of(place.offset);
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

}  // namespace weir
