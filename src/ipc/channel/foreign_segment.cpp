// SPDX-License-Identifier: Apache-2.0
#include "ipc/channel/foreign_segment.hpp"

#include "base/reports_later.hpp"
#include "ipc/foreign_memory.hpp"
#include "ipc/one_user.hpp"

namespace weir::detail::channel {

OpenSegment ForeignSegment::open(spi::DeviceState& preferred, int socket) {
  const ReportsLater later;
  const std::scoped_lock lock(opening_);
  const auto& memory = memory_.get([&](std::span<spi::StrangerFd> files) {
    auto& device = device_of(wire, preferred);
    check_one_user("ipc::Channel::receive", device, socket);
    return open_memory(device, wire, files);
  });
  if (!open_) open_ = open_segment(memory);
  return *open_;
}

}  // namespace weir::detail::channel
