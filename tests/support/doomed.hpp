// SPDX-License-Identifier: Apache-2.0
#pragma once
// A point that is never reached, without a driver that fails: that of a process which ends before its work does.

#include <sys/socket.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "descriptor_fields.hpp"
#include "spawn.hpp"
#include "weir/host.hpp"
#include "weir/ipc.hpp"

namespace weir::test {

/// The ready point of a descriptor whose exporter this object plays. Streams that wait for `event()` are held back until
/// `fail()`, which ends them: reports to the sink are two (the exporter's point and the stream that carries it here) and
/// one per stream that waits.
class DoomedPoint {
 public:
  DoomedPoint() : carrier_(host_device()) {
    Buffer buffer = host::make_shared_resource()->allocate(64, carrier_);
    carrier_.synchronize();
    const ipc::Descriptor plain = buffer.ipc_descriptor(carrier_);
    auto [importer, exporter] = socket_pair(SOCK_STREAM);
    std::vector<spi::UniqueFd> fds;
    fds.push_back(plain.fds()[0].duplicate());
    fds.push_back(std::move(importer));
    exporter_ = std::move(exporter);
    (void)ipc::open({wire::with(wire::with(plain.bytes(), wire::flags, 2), wire::fd_count, 2), std::move(fds)}, carrier_);
    event_ = carrier_.record();
    if (event_.done()) throw std::runtime_error("the descriptor's ready point did not hold its stream back");
  }

  [[nodiscard]] const Event& event() const { return event_; }
  void fail() { exporter_.reset(); }

 private:
  Stream carrier_;
  spi::UniqueFd exporter_;
  Event event_;
};

}  // namespace weir::test
