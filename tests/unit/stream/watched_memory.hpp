// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory that says when it is freed, and a resource that hands it out.

#include <atomic>
#include <memory>

#include "memory/block_store.hpp"
#include "weir/buffer.hpp"
#include "weir/device.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/segment.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::test {

class WatchedSegment final : public spi::Segment {
 public:
  explicit WatchedSegment(std::atomic<bool>& freed) : freed_(freed) {
    device = &host_device().state();
    size = 4096;
  }

 private:
  ~WatchedSegment() override { freed_ = true; }
  std::atomic<bool>& freed_;
};

/// Each buffer is one such segment. Its release may block, or not.
class WatchedResource final : public MemoryResource, public detail::ReleaseListener {
 public:
  WatchedResource(std::atomic<bool>& freed, bool release_blocks)
      : MemoryResource(host_device(), "watched", {}),
        freed_(freed),
        release_blocks_(release_blocks),
        blocks_(host_device().state()) {}

  [[nodiscard]] ResourceStats stats() const override { return {}; }
  std::size_t trim(std::size_t) override {
    blocks_.queue().drain();
    return 0;
  }
  bool settle() { return blocks_.queue().settle(); }

  std::atomic<std::size_t> released{0};

 private:
  spi::Block* do_allocate(const spi::Request& request, Shortage&) override {
    spi::Block& block = blocks_.take(*this, *request.stream);
    block.segment = new WatchedSegment(freed_);
    block.size = request.bytes;
    return &block;
  }
  void do_deallocate(spi::Block& block) noexcept override { blocks_.end(block, release_blocks_, *this); }
  void segment_released(std::size_t bytes) noexcept override { released += bytes; }

  std::atomic<bool>& freed_;
  bool release_blocks_;
  detail::BlockStore blocks_;
};

}  // namespace weir::test
