// SPDX-License-Identifier: Apache-2.0
#include "stream.hpp"

#include <atomic>

#include "copy/host_bytes.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::host {
namespace {

// Work runs when it is submitted: an operation is complete when its do_ function returns.
class HostStream final : public spi::StreamState {
 public:
  using StreamState::StreamState;

 private:
  void do_copy(const spi::CopyOp& op, std::uint64_t value) override {
    detail::copy_host(op.dst, op.src, op.bytes);
    finish(value);
  }
  void do_fill(const spi::FillOp& op, std::uint64_t value) override {
    detail::fill_host(op.dst, op.bytes, op.pattern, op.pattern_bytes);
    finish(value);
  }
  void do_copy_region(const spi::RegionOp& op, std::uint64_t value) override {
    detail::copy_host(op);
    finish(value);
  }
  void do_mark(std::uint64_t value) override { finish(value); }
  void do_flush() override {}
  std::uint64_t do_poll() override { return finished_.load(std::memory_order_acquire); }
  WaitStatus do_wait_host(std::uint64_t, std::chrono::nanoseconds) override { return WaitStatus::ready; }

  void finish(std::uint64_t value) noexcept {
    finished_.store(value, std::memory_order_release);
    complete(value);
  }

  std::atomic<std::uint64_t> finished_{0};
};

}  // namespace

spi::StreamState* create_stream(spi::DeviceState& device) { return new HostStream(device); }

bool reaches(const spi::DeviceState& /*device*/, const spi::Segment& segment) noexcept {
  return segment.host_accessible();
}

}  // namespace weir::host
