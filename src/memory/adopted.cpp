// SPDX-License-Identifier: Apache-2.0
#include "memory/adopted.hpp"

#include <memory>
#include <utility>

#include "memory/foreign_resource.hpp"
#include "memory/resource_of.hpp"
#include "weir/buffer.hpp"
#include "weir/spi/resources.hpp"

namespace weir {
namespace {

/// Memory that belongs to somebody else in this process, or that came with a descriptor. Each buffer has a segment.
/// Segments that came with several descriptors of one memory have its identity, and count once.
class AdoptedResource final : public detail::ForeignResource, public detail::ReleaseListener {
 public:
  explicit AdoptedResource(spi::DeviceState& device) : ForeignResource(device, "external", false) {}

  Buffer adopt(spi::Ref<spi::Segment> segment, std::size_t offset, std::size_t bytes, const Stream& stream) {
    const std::size_t whole = segment->size;
    const bool has_identity = segment->known_as(*segment);
    if (!has_identity) return Buffer(make_block(std::move(segment), offset, bytes, whole, stream, Reserves::its_bytes));
    auto import = std::make_unique<Import>(*this, opened().count(*segment), bytes);
    spi::Block& block = make_block(std::move(segment), offset, bytes, bytes, stream, Reserves::nothing);
    detail::BlockStore::tag(block) = import.release();
    return Buffer(block);
  }

 private:
  struct Import final : detail::ReleaseListener {
    Import(AdoptedResource& into, std::shared_ptr<const void> open, std::size_t size) noexcept
        : resource(into), counted(std::move(open)), bytes(size) {}
    void segment_released(std::size_t) noexcept override {
      resource.uncount(bytes, Reserves::nothing);
      delete this;
    }
    AdoptedResource& resource;
    const std::shared_ptr<const void> counted;
    const std::size_t bytes;
  };

  void end(spi::Block& block) noexcept override {
    const spi::Segment& segment = *block.segment;
    const KindInfo* info = segment.device->find(segment.kind);
    auto* const import = static_cast<Import*>(std::exchange(detail::BlockStore::tag(block), nullptr));
    end_block(block, info && info->release_blocks, import ? static_cast<detail::ReleaseListener&>(*import) : *this);
  }
  void segment_released(std::size_t bytes) noexcept override { uncount(bytes, Reserves::its_bytes); }
};

AdoptedResource& adopted_resource(spi::DeviceState& device) { return detail::resource_of<AdoptedResource>(device); }

}  // namespace

Buffer spi::make_adopted_buffer(Ref<Segment> segment, std::size_t offset, std::size_t bytes, const Stream& stream) {
  return adopted_resource(*segment->device).adopt(std::move(segment), offset, bytes, stream);
}

Buffer detail::adopt_nothing(spi::DeviceState& device, const Stream& stream) {
  return adopted_resource(device).allocate(0, stream);
}

Buffer detail::adopt_address(spi::DeviceState& device, std::uint64_t address, std::size_t bytes, bool read_only,
                             std::function<void()> release, const Stream& stream) {
  device.check_process();
  const auto wrap = device.backend->segments->wrap;
  if (!wrap) {
    throw Error(Errc::unsupported,
                "memory of " + device.describe() + " has no address; use the backend's own function (vulkan::wrap)");
  }
  auto segment = spi::Ref<spi::Segment>::adopt(wrap(device, address, bytes));
  segment->read_only = read_only;
  Buffer buffer = spi::make_adopted_buffer(segment, 0, bytes, stream);
  segment->owner_release = std::move(release);
  return buffer;
}

Buffer Buffer::from_handle(const Device& device, std::uint64_t address, std::size_t bytes,
                           std::function<void()> release, const Stream& stream) {
  (void)stream.state();
  if (address == 0 || bytes == 0) {
    throw Error(Errc::invalid_argument, "Buffer::from_handle: address " + std::to_string(address) + " of " +
                                            std::to_string(bytes) + " bytes names no memory");
  }
  if (bytes > UINT64_MAX - address) {
    throw Error(Errc::invalid_argument,
                "Buffer::from_handle: " + std::to_string(bytes) + " bytes reach beyond the address space");
  }
  return detail::adopt_address(device.state(), address, bytes, false, std::move(release), stream);
}

}  // namespace weir
