// SPDX-License-Identifier: Apache-2.0
#include "timeline.hpp"

#include <algorithm>
#include <new>

#include "base/atomic_max.hpp"
#include "explore.hpp"
#include "stream/watcher.hpp"
#include "weir/error.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/stranger_fd.hpp"

namespace weir {

// Of device.cpp, which knows all backends.
std::string spi::DeviceState::describe() const { return "a device"; }
void spi::DeviceState::fork(ForkMoment) noexcept {}
void spi::DeviceState::throw_inherited() const { throw Error(Errc::unsupported, "inherited"); }
// Of closer.cpp: there are no files here.
void spi::StrangerFd::reset() noexcept {}

namespace test {
namespace {

constexpr spi::StreamOps streams{.create = [](spi::DeviceState&) -> spi::StreamState* {
                                   auto* const made = new Timeline;
                                   made->finish_all();
                                   return made;
                                 },
                                 .reaches = nullptr};
constexpr spi::Backend backend{
    .name = "explored", .devices = nullptr, .segments = nullptr, .streams = &streams, .survives_fork = true};

// Made before any run, whose memory it must not be.
[[maybe_unused]] auto& watcher = detail::Watcher::get();

}  // namespace

spi::DeviceState& device() {
  static auto& state = *[] {
    auto* const made = new spi::DeviceState;
    made->backend = &backend;
    return made;
  }();
  return state;
}
[[maybe_unused]] static auto& made_before_any_run = device();

void begin_world() {
  new (&detail::Watcher::get()) detail::Watcher;
  explore::forget_forks();
}

void Timeline::use_native(std::uint64_t value) {
  front_.enter();
  explore::require(!foreign_ || !native_ended_.load(), "the native stream is still there");
  explore::require(value > last_taken_ || value == 0, "the driver gets everything once, in order");
  front_.leave();
}

void Timeline::do_copy(const spi::CopyOp& op, std::uint64_t value) {
  use_native(value);
  if (op.bytes == 0) throw Error(Errc::out_of_memory, "refused");
  last_taken_ = value;
}

void Timeline::do_mark(std::uint64_t value) {
  use_native(0);
  last_taken_ = std::max<std::uint64_t>(last_taken_, value);
  marked_.store(value, std::memory_order_release);
  if (foreign_ && kernel_.fetch_or(0) == 0) detail::atomic_max(done_, value);
}

void Timeline::do_flush() { use_native(0); }

std::uint64_t Timeline::do_poll() {
  return std::min(marked_.load(std::memory_order_acquire), done_.load(std::memory_order_acquire));
}

WaitStatus Timeline::do_wait_host(std::uint64_t value, std::chrono::nanoseconds timeout) {
  for (unsigned round = 0; do_poll() < value; ++round) {
    if (timeout.count() >= 0) return WaitStatus::timeout;  // no test waits for time
    sync::pause(round);
  }
  return WaitStatus::ready;
}

}  // namespace test
}  // namespace weir
