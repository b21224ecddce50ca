// SPDX-License-Identifier: Apache-2.0
// A buffer's descriptor, for another process.
#include <algorithm>
#include <bit>
#include <utility>

#include "device/registry.hpp"
#include "ipc/leases.hpp"
#include "ipc/ready_point.hpp"
#include "ipc/wire.hpp"
#include "weir/ipc.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/block.hpp"

namespace weir {
namespace {

std::size_t alignment_of(std::uint64_t offset) {
  return offset == 0 ? default_alignment
                     : std::min<std::uint64_t>(std::uint64_t{1} << std::countr_zero(offset), default_alignment);
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
  const bool shares = segment.imported || resource.is_exportable();  // a pool may not, although its memory could
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

}  // namespace weir
