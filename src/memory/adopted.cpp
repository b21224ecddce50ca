// SPDX-License-Identifier: Apache-2.0
#include "memory/adopted.hpp"

#include <atomic>
#include <map>
#include <mutex>

#include "base/forks.hpp"
#include "base/never_ends.hpp"
#include "memory/block_store.hpp"
#include "weir/buffer.hpp"
#include "weir/spi/resources.hpp"

namespace weir {
namespace {

/// What `memory_resource()` of an adopted buffer returns. There is one per device. It has no memory of its own: when
/// `Buffer::copy_to(stream)` asks it for memory, it asks the plain resource of the device's default kind.
class AdoptedResource final : public MemoryResource, public detail::ReleaseListener {
 public:
  explicit AdoptedResource(spi::DeviceState& device)
      : MemoryResource(Device(device), std::string(device.backend->name) + ".external", traits(device)),
        fallback_(spi::make_segment_resource(device, device.default_kind, false)),
        blocks_(device) {}

  ResourceStats stats() const override {
    ResourceStats stats;
    stats.in_use = stats.reserved = in_use_;
    stats.live_buffers = live_;
    stats.allocations = adopted_;
    return stats;
  }
  std::size_t trim(std::size_t bytes_to_keep) override {
    blocks_.queue().drain();
    blocks_.trim();
    return fallback_->trim(bytes_to_keep);
  }
  ResourcePtr upstream() const override { return fallback_; }

  Buffer adopt(spi::Ref<spi::Segment> segment, std::size_t offset, std::size_t bytes, const Stream& stream) {
    spi::Block& block = blocks_.take(*this, stream);
    in_use_ += segment->size;
    ++live_;
    ++adopted_;
    block.offset = offset;
    block.size = bytes;
    block.segment = segment.detach();
    return Buffer(block);
  }

 private:
  static Traits traits(const spi::DeviceState& device) {
    const KindInfo* info = device.find(device.default_kind);
    return {.host_accessible = info->host_accessible,
            .device_accessible = info->device_accessible,
            .reuses_memory = false,
            .keeps_uses = true};
  }

  spi::Block* do_allocate(const spi::Request& request, Shortage& shortage) override {
    return allocate_from(*fallback_, request, shortage);
  }

  void do_deallocate(spi::Block& block) noexcept override {
    --live_;
    const spi::Segment& segment = *block.segment;
    const KindInfo* info = segment.device->find(segment.kind);
    blocks_.end(block, info && info->release_blocks, *this);
  }

  void segment_released(std::size_t bytes) noexcept override { in_use_ -= bytes; }

  ResourcePtr fallback_;
  detail::BlockStore blocks_;
  std::atomic<std::size_t> in_use_{0}, live_{0};
  std::atomic<std::uint64_t> adopted_{0};
};

struct AdoptedResources {
  std::mutex mutex;
  std::map<spi::DeviceState*, std::shared_ptr<AdoptedResource>> of;
};

AdoptedResources& adopted_resources() { return detail::never_ends<AdoptedResources>(); }

const detail::ForkStep step(3, [](spi::ForkMoment moment) noexcept { detail::hold_across_fork(adopted_resources().mutex, moment); });

AdoptedResource& adopted_resource(spi::DeviceState& device) {
  const std::scoped_lock lock(adopted_resources().mutex);
  auto& resource = adopted_resources().of[&device];
  if (!resource) resource = std::make_shared<AdoptedResource>(device);
  return *resource;
}

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
