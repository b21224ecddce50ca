// SPDX-License-Identifier: Apache-2.0
#include "ipc/hold/held_memory.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "ipc/foreign_memory.hpp"
#include "ipc/one_user.hpp"
#include "memory/foreign_resource.hpp"
#include "memory/resource_of.hpp"
#include "stream/releases.hpp"
#include "weir/error.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/block.hpp"
#include "weir/spi/device_state.hpp"

namespace weir::detail::hold {
namespace {

/// Memory of sets. Every epoch has a block for each of its segments. When this process passes such memory on, it has to
/// keep the lease until the next process is done, as with memory that is used again.
class HeldResource final : public ForeignResource {
 public:
  explicit HeldResource(spi::DeviceState& device) : ForeignResource(device, "held", true) {}

  Buffer hold(spi::Ref<spi::Segment> segment, const Stream& stream, SetLease lease) {
    const std::size_t bytes = segment->size;
    auto loan = std::make_unique<Loan>(*this, opened().count(*segment), std::move(lease));
    spi::Block& block = make_block(std::move(segment), 0, bytes, bytes, stream, Reserves::nothing);
    BlockStore::tag(block) = loan.release();
    return Buffer(block);
  }

 private:
  struct Loan final : ReleaseListener {
    Loan(HeldResource& from, std::shared_ptr<const void> open, SetLease of) noexcept
        : resource(from), counted(std::move(open)), lease(std::move(of)) {}
    void segment_released(std::size_t bytes) noexcept override {
      resource.uncount(bytes, Reserves::nothing);
      delete this;
    }
    HeldResource& resource;
    const std::shared_ptr<const void> counted;
    const SetLease lease;
  };

  void end(spi::Block& block) noexcept override {
    const spi::Segment& segment = *block.segment;
    const KindInfo* info = segment.device->find(segment.kind);
    end_block(block, info && info->release_blocks, *static_cast<Loan*>(BlockStore::tag(block)));
  }
};

void drop(spi::Ref<spi::Segment> segment) noexcept {
  if (segment) give_back(*segment.detach());
}

}  // namespace

HeldMemory::~HeldMemory() {
  drop(std::move(joined_));
  if (auto memory = memory_.take()) drop(std::move(*memory));
}

std::size_t HeldMemory::size() const { return detail::decode(descriptor_).segment_size; }

const spi::Ref<spi::Segment>& HeldMemory::open(spi::DeviceState& preferred, int holder, As as) {
  return memory_.get([&](std::span<spi::StrangerFd> files) {
    WireDescriptor wire = detail::decode(descriptor_);
    if (wire.offset != 0 || wire.size != wire.segment_size || wire.has_ready || wire.has_lease)
      violated("a descriptor that is not of a whole segment");
    wire.read_only = true;  // whatever was said
    auto& device = device_of(wire, preferred);
    check_one_user("ipc::SetReader", device, holder);
    if (as == As::whole || !device.backend->segments->join) return open_memory(device, wire, files);
    auto part = open_part(device, wire, files.front());
    is_part_ = true;
    return part;
  });
}

const spi::Ref<spi::Segment>& HeldMemory::joined(std::span<spi::Segment* const> parts) {
  if (joined_ && std::ranges::equal(parts, parts_)) return joined_;
  spi::DeviceState& device = *parts.front()->device;
  if (!std::ranges::all_of(parts, [&](const spi::Segment* part) { return part->device == &device; }))
    violated("a tensor in memory of two devices");
  device.check_process();
  std::vector<spi::Segment*> of(parts.begin(), parts.end());
  drop(std::exchange(joined_, join_memory(device, parts)));
  parts_ = std::move(of);
  return joined_;
}

void HeldMemory::forget_joined() noexcept {
  drop(std::move(joined_));
  parts_.clear();
}

Buffer hold_buffer(spi::Ref<spi::Segment> segment, const Stream& stream, SetLease lease) {
  auto& resource = resource_of<HeldResource>(*segment->device);
  return resource.hold(std::move(segment), stream, std::move(lease));
}

}  // namespace weir::detail::hold
