// SPDX-License-Identifier: Apache-2.0
#pragma once
// A device that cannot write the host's memory, and says so to the failure sink.

#include <cstddef>

#include "stream/fake_stream.hpp"
#include "weir/error.hpp"
#include "weir/host.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/stream.hpp"

namespace weir::test {

struct RefusingDevice final : spi::DeviceState {
  RefusingDevice() {
    table = *host_device().state().backend;
    table.name = "refusing";
    backend = &table;
  }
  bool reach_host(void* /*data*/, std::size_t /*bytes*/) override {
    report({{}, "RefusingDevice", "refused by hand"});
    return false;
  }
  spi::Backend table;
};

/// A stream of such a device, with work until the end of the test.
class RefusedStream {
 public:
  RefusedStream() {
    state_->behaviour.stores_natively = state_->behaviour.calls_natively = true;
    state_->put(FakeStream::fill());
  }
  RefusedStream(const RefusedStream&) = delete;
  RefusedStream& operator=(const RefusedStream&) = delete;
  ~RefusedStream() { state_->finish(state_->issued()); }
  [[nodiscard]] const Stream& get() const noexcept { return stream_; }

 private:
  FakeStream* const state_ = new FakeStream(*new RefusingDevice);  // devices are never destroyed
  const Stream stream_{spi::Ref<spi::StreamState>::adopt(state_)};
};

}  // namespace weir::test
