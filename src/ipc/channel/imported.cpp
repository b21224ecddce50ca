// SPDX-License-Identifier: Apache-2.0
#include "ipc/channel/imported.hpp"

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "base/fork_mutex.hpp"
#include "base/never_ends.hpp"
#include "ipc/channel/link.hpp"
#include "memory/block_store.hpp"
#include "weir/memory_resource.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/block.hpp"
#include "weir/spi/resources.hpp"

namespace weir::detail::channel {
namespace {

/// What `memory_resource()` of a borrowed buffer returns. There is one per device. When it is asked for memory, as
/// `Buffer::copy_to(stream)` does, it asks the plain resource of the device's default kind.
class BorrowedResource final : public MemoryResource {
 public:
  explicit BorrowedResource(spi::DeviceState& device)
      : MemoryResource(Device(device), std::string(device.backend->name) + ".borrowed", traits(device)),
        fallback_(spi::make_segment_resource(device, device.default_kind, false)),
        blocks_(device) {}

  ResourceStats stats() const override {
    ResourceStats stats;
    stats.in_use = stats.reserved = in_use_;
    stats.live_buffers = live_;
    stats.allocations = borrowed_;
    return stats;
  }
  std::size_t trim(std::size_t bytes_to_keep) override {
    blocks_.queue().drain();
    blocks_.trim();
    return fallback_->trim(bytes_to_keep);
  }
  ResourcePtr upstream() const override { return fallback_; }

  Buffer borrow(spi::Ref<spi::Segment> segment, std::size_t offset, std::size_t bytes, const Stream& stream,
                std::shared_ptr<Link> link, std::uint64_t grant) {
    auto loan = std::make_unique<Loan>(*this, std::move(link), grant, bytes);
    spi::Block& block = blocks_.take(*this, stream);
    detail::BlockStore::tag(block) = loan.release();
    in_use_ += bytes;
    ++live_;
    ++borrowed_;
    block.offset = offset;
    block.size = bytes;
    block.segment = segment.detach();
    return Buffer(block);
  }

 private:
  struct Loan final : ReleaseListener {
    Loan(BorrowedResource& from, std::shared_ptr<Link> over, std::uint64_t number, std::size_t size) noexcept
        : resource(from), link(std::move(over)), grant(number), bytes(size) {}
    void segment_released(std::size_t) noexcept override {
      resource.in_use_ -= bytes;
      link->give_back(grant);
      delete this;
    }
    BorrowedResource& resource;
    const std::shared_ptr<Link> link;
    const std::uint64_t grant;
    const std::size_t bytes;
  };

  static Traits traits(const spi::DeviceState& device) {
    const KindInfo* info = device.find(device.default_kind);
    return {.host_accessible = info->host_accessible,
            .device_accessible = info->device_accessible,
            .reuses_memory = true,
            .keeps_uses = true};
  }

  spi::Block* do_allocate(const spi::Request& request, Shortage& shortage) override {
    return allocate_from(*fallback_, request, shortage);
  }

  // The driver is not asked for anything: the peer's segment stays open.
  void do_deallocate(spi::Block& block) noexcept override {
    --live_;
    blocks_.end(block, false, *static_cast<Loan*>(detail::BlockStore::tag(block)));
  }

  const ResourcePtr fallback_;
  detail::BlockStore blocks_;
  std::atomic<std::size_t> in_use_{0}, live_{0};
  std::atomic<std::uint64_t> borrowed_{0};
};

struct BorrowedResources {
  ForkMutex mutex;
  std::map<spi::DeviceState*, std::shared_ptr<BorrowedResource>> of;
};

BorrowedResource& resource_of(spi::DeviceState& device) {
  auto& all = never_ends<BorrowedResources>();
  {
    const std::scoped_lock lock(all.mutex);
    const auto known = all.of.find(&device);
    if (known != all.of.end()) return *known->second;
  }
  auto made = std::make_shared<BorrowedResource>(device);
  const std::scoped_lock lock(all.mutex);
  return *all.of.try_emplace(&device, std::move(made)).first->second;
}

}  // namespace

Buffer import_buffer(spi::Ref<spi::Segment> segment, std::size_t offset, std::size_t bytes, const Stream& stream,
                     std::shared_ptr<Link> link, std::uint64_t grant) {
  BorrowedResource& resource = resource_of(*segment->device);
  return resource.borrow(std::move(segment), offset, bytes, stream, std::move(link), grant);
}

}  // namespace weir::detail::channel
