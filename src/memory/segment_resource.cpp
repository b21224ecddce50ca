// SPDX-License-Identifier: Apache-2.0
// The plain resource: one segment from the driver per buffer. One class serves every kind of every backend.
#include <atomic>
#include <memory>
#include <optional>

#include "base/atomic_max.hpp"
#include "memory/block_store.hpp"
#include "memory/lent.hpp"
#include "stream/releases.hpp"
#include "weir/spi/block.hpp"
#include "weir/spi/paged_segment.hpp"
#include "weir/spi/resources.hpp"

namespace weir {
namespace {

class Counters {
 public:
  void reserve(std::size_t bytes) noexcept { detail::atomic_max(peak_reserved_, reserved_.fetch_add(bytes) + bytes); }
  void unreserve(std::size_t bytes) noexcept { reserved_.fetch_sub(bytes); }
  void allocate(std::size_t bytes) noexcept {
    ++live_;
    ++allocations_;
    detail::atomic_max(peak_in_use_, in_use_.fetch_add(bytes) + bytes);
  }
  void deallocate(std::size_t bytes) noexcept {
    --live_;
    in_use_.fetch_sub(bytes);
  }
  ResourceStats read() const noexcept {
    ResourceStats stats;
    stats.in_use = in_use_;
    stats.reserved = reserved_;
    stats.peak_in_use = peak_in_use_;
    stats.peak_reserved = peak_reserved_;
    stats.live_buffers = live_;
    stats.allocations = allocations_;
    return stats;
  }

 private:
  std::atomic<std::size_t> in_use_{0}, reserved_{0}, peak_in_use_{0}, peak_reserved_{0}, live_{0};
  std::atomic<std::uint64_t> allocations_{0};
};

class SegmentResource final : public MemoryResource, public detail::ReleaseListener, public spi::PageListener {
 public:
  SegmentResource(spi::DeviceState& device, const KindInfo& info, bool exportable, std::uint64_t flags,
                  std::shared_ptr<spi::Source> source)
      : MemoryResource(Device(device), std::string(device.backend->name) + "." + std::string(to_string(info.kind)),
                       {.kind = info.kind,
                        .host_accessible = info.host_accessible,
                        .device_accessible = info.device_accessible,
                        .exportable = exportable,
                        .reuses_memory = false,
                        .keeps_uses = true}),
        info_(info),
        flags_(flags),
        source_(std::move(source)),
        blocks_(device) {}

  ResourceStats stats() const override {
    ResourceStats stats = counts();
    detail::count_lent(*this, stats);
    auto& state = device().state();
    const auto ask = state.backend->segments->device_memory;
    if (const auto memory = ask && !state.inherited ? ask(state, kind()) : std::nullopt) {
      stats.device_budget = memory->budget;
      stats.device_free = memory->free;
    }
    return stats;
  }

  [[nodiscard]] spi::Source* source() const noexcept { return source_.get(); }

  std::size_t trim(std::size_t bytes_to_keep) override {
    const auto before = counts().reserved;
    blocks_.queue().drain();
    blocks_.trim();
    if (source_) {
      detail::drain_left(device().state());  // segments that the source still counts, although this resource does not
      source_->trim(bytes_to_keep, !detail::in_release());
    }
    const auto after = counts().reserved;
    return before > after ? before - after : 0;
  }

 private:
  ResourceStats counts() const {
    ResourceStats stats = counters_.read();
    if (source_) source_->count(stats);
    return stats;
  }

  spi::Block* do_allocate(const spi::Request& request, Shortage& shortage) override {
    // Segments begin at multiples of info_.alignment. A larger alignment is found inside a larger segment.
    const std::size_t slack = request.alignment > info_.alignment ? request.alignment - info_.alignment : 0;
    const spi::SegmentRequest wanted{info_.kind, request.bytes + slack, is_exportable(), &request.stream->state(),
                                     flags_,     source_.get()};
    auto& state = device().state();
    // Taken before the driver is asked, so that what the driver gives can always be kept.
    const auto put_back = [this](spi::Block* unused) noexcept { blocks_.put_back(*unused); };
    std::unique_ptr<spi::Block, decltype(put_back)> block(&blocks_.take(*this, *request.stream), put_back);
    const auto reserve = state.backend->segments->reserve;
    spi::Segment* made = reserve(state, wanted, shortage);
    while (!made && (blocks_.queue().settle() || detail::settle_releases(state)))
      made = reserve(state, wanted, shortage);
    if (!made) {
      const auto now = counts();
      shortage.in_use = now.in_use;
      shortage.reserved = now.reserved;
      detail::tell_of_lent(*this, shortage);
      return nullptr;
    }
    counters_.reserve(made->size);
    counters_.allocate(request.bytes);
    const std::uint64_t base = made->address ? made->address : reinterpret_cast<std::uint64_t>(made->host);
    block->offset = slack ? (0 - base) & (request.alignment - 1) : 0;
    block->size = request.bytes;
    block->segment = made;
    return block.release();
  }

  spi::Block* do_reserve_addresses(std::size_t bytes, const Stream& stream) override {
    const auto reserve = device().state().backend->segments->reserve_addresses;
    if (!reserve || !info_.paged || flags_ != 0) return nullptr;
    auto segment = spi::Ref<spi::Segment>::adopt(reserve(device().state(), info_.kind, bytes, is_exportable()));
    segment->paged()->listener = this;
    spi::Block& block = blocks_.take(*this, stream);
    block.offset = 0;
    block.size = 0;
    block.segment = segment.detach();
    return &block;
  }

  void do_deallocate(spi::Block& block) noexcept override {
    const bool addresses = block.segment->paged() != nullptr;
    if (!addresses) counters_.deallocate(block.size);
    blocks_.end(block, info_.release_blocks, addresses ? no_bytes_ : static_cast<ReleaseListener&>(*this));
  }

  void segment_released(std::size_t bytes) noexcept override { counters_.unreserve(bytes); }
  void paged(std::ptrdiff_t bytes) noexcept override {
    if (bytes > 0) {
      counters_.reserve(static_cast<std::size_t>(bytes));
      counters_.allocate(static_cast<std::size_t>(bytes));
    } else {
      counters_.deallocate(static_cast<std::size_t>(-bytes));
      counters_.unreserve(static_cast<std::size_t>(-bytes));
    }
  }

  struct Addresses final : detail::ReleaseListener {
    void segment_released(std::size_t) noexcept override {}  // pages are counted one by one
  } no_bytes_;

  KindInfo info_;
  std::uint64_t flags_;
  std::shared_ptr<spi::Source> source_;
  Counters counters_;
  detail::BlockStore blocks_;
};

}  // namespace

ResourcePtr spi::make_segment_resource(DeviceState& device, MemoryKind kind, bool exportable, std::uint64_t flags,
                                       std::shared_ptr<Source> source) {
  const KindInfo* info = device.find(kind);
  if (!info) {
    throw Error(Errc::unsupported, device.describe() + " has no memory of kind " + std::string(to_string(kind)));
  }
  if (exportable && !info->exportable) {
    throw Error(Errc::unsupported, device.describe() + ": memory of kind " + std::string(to_string(kind)) +
                                       " cannot be shared with other processes");
  }
  const auto make_source = device.backend->segments->source;
  if (!source && make_source) source = make_source(device, kind);
  return std::make_shared<SegmentResource>(device, *info, exportable, flags, std::move(source));
}

spi::Source* spi::source_of(const MemoryResource& resource) noexcept {
  const auto* const plain = dynamic_cast<const SegmentResource*>(&resource);
  return plain ? plain->source() : nullptr;
}

}  // namespace weir
