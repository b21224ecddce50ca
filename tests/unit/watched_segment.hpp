// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory that says when it is freed, and who is told of it.

#include <atomic>

#include "reclaim.hpp"
#include "weir/device.hpp"
#include "weir/spi/segment.hpp"

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

class Listener final : public detail::ReclaimListener {
 public:
  void segment_released(std::size_t bytes) noexcept override { released += bytes; }
  std::atomic<std::size_t> released{0};
};

}  // namespace weir::test
