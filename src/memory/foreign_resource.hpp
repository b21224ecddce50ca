// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `memory_resource()` returns of buffers over memory that no resource of this process made.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string>

#include "base/atomic_max.hpp"
#include "memory/block_store.hpp"
#include "memory/counted_segments.hpp"
#include "memory/lent.hpp"
#include "weir/memory_resource.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/resources.hpp"

namespace weir::detail {

/// Base of these resources, of which there is one for each sort and device. They have no memory of their own: when one
/// is asked for memory, as `Buffer::copy_to(stream)` does, it asks the plain resource of the device's default kind.
class ForeignResource : public MemoryResource {
 public:
  ResourceStats stats() const override {
    ResourceStats stats;
    stats.in_use = in_use_;
    stats.reserved = alone_ + opened_.bytes();
    stats.peak_in_use = peak_in_use_;
    stats.peak_reserved = std::max<std::size_t>(peak_reserved_, stats.reserved);
    stats.live_buffers = live_;
    stats.allocations = made_;
    count_lent(*this, stats);
    return stats;
  }
  std::size_t trim(std::size_t bytes_to_keep) override {
    blocks_.queue().drain();
    blocks_.trim();
    return fallback_->trim(bytes_to_keep);
  }
  ResourcePtr upstream() const override { return fallback_; }

 protected:
  ForeignResource(spi::DeviceState& device, const char* sort, bool reuses_memory, bool exportable = false)
      : MemoryResource(Device(device), std::string(device.backend->name) + "." + sort,
                       traits(device, reuses_memory, exportable)),
        fallback_(spi::make_segment_resource(device, device.default_kind, false)),
        blocks_(device) {}

  /// Give up a block of make_block() that has no owners.
  virtual void end(spi::Block& block) noexcept = 0;

  /// What a block's bytes are counted as: a segment that others may have, too, is counted by opened().
  enum class Reserves { its_bytes, nothing };

  /// Return a block over that range, with which `counted` bytes are reserved if `reserves` says so.
  spi::Block& make_block(spi::Ref<spi::Segment> segment, std::size_t offset, std::size_t bytes, std::size_t counted,
                         const Stream& stream, Reserves reserves) {
    spi::Block& block = blocks_.take(*this, stream);
    atomic_max(peak_in_use_, in_use_ += bytes);
    if (reserves == Reserves::its_bytes) alone_ += counted;
    atomic_max(peak_reserved_, alone_ + opened_.bytes());
    ++live_;
    ++made_;
    block.offset = offset;
    block.size = bytes;
    block.segment = segment.detach();
    return block;
  }
  /// End a block, as BlockStore does; `listener` then calls uncount(). The block has the size that it was made with.
  void end_block(spi::Block& block, bool release_blocks, ReleaseListener& listener) noexcept {
    --live_;
    in_use_ -= block.size;
    blocks_.end(block, release_blocks, listener);
  }
  /// The bytes of a block are not held any more. The arguments are those of make_block().
  void uncount(std::size_t counted, Reserves reserves) noexcept {
    if (reserves == Reserves::its_bytes) alone_ -= counted;
  }
  [[nodiscard]] CountedSegments& opened() noexcept { return opened_; }

 private:
  static Traits traits(const spi::DeviceState& device, bool reuses_memory, bool exportable) {
    const KindInfo* info = device.find(device.default_kind);
    return {.host_accessible = info->host_accessible,
            .device_accessible = info->device_accessible,
            .exportable = exportable,
            .reuses_memory = reuses_memory,
            .keeps_uses = true};
  }
  spi::Block* do_allocate(const spi::Request& request, Shortage& shortage) override {
    return allocate_from(*fallback_, request, shortage);
  }
  // A resource that allocated here gives back to here what the fallback made.
  void do_deallocate(spi::Block& block) noexcept final {
    blocks_.owns(block) ? end(block) : deallocate_to(*fallback_, block);
  }

  const ResourcePtr fallback_;
  BlockStore blocks_;
  CountedSegments opened_;
  std::atomic<std::size_t> in_use_{0}, alone_{0}, live_{0}, peak_in_use_{0}, peak_reserved_{0};
  std::atomic<std::uint64_t> made_{0};
};

}  // namespace weir::detail
