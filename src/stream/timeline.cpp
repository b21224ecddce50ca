// SPDX-License-Identifier: Apache-2.0
#include "weir/spi/stream_state.hpp"

#include "weir/error.hpp"
#include "weir/spi/device_state.hpp"

namespace weir::spi {
namespace {

std::uint64_t next_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

void ref_retain(StreamState* object) noexcept { object->retain(); }
void ref_release(StreamState* object) noexcept { object->release(); }

StreamState::StreamState(DeviceState& device) : device_(&device), id_(next_id()) {}

void StreamState::do_store(const StoreOp& /*op*/, std::uint64_t /*value*/) {
  throw Error(Errc::unsupported, device_->describe() + " does not write words of the host's memory");
}

void StreamState::do_call(std::function<void()>& /*function*/, std::uint64_t /*value*/) {
  throw Error(Errc::unsupported, device_->describe() + " has no native host calls");
}

void StreamState::do_prefetch(const PrefetchOp& /*op*/, std::uint64_t /*value*/) {
  throw Error(Errc::unsupported, device_->describe() + " does not move memory");
}

void StreamState::do_wait(const WaitOp& /*op*/, std::uint64_t /*value*/) {
  throw Error(Errc::unsupported, device_->describe() + " has no native waits");
}

}  // namespace weir::spi
