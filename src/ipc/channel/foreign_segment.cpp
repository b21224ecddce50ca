// SPDX-License-Identifier: Apache-2.0
#include "ipc/channel/foreign_segment.hpp"

#include "base/reports_later.hpp"
#include "ipc/foreign_memory.hpp"
#include "ipc/one_user.hpp"

namespace weir::detail::channel {

OpenSegment ForeignSegment::open(spi::DeviceState& preferred, int socket) {
  const ReportsLater later;
  const std::scoped_lock lock(opening_);
  return memory_.get([&](std::span<spi::StrangerFd> files) {
    auto& device = device_of(wire, preferred);
    check_one_user("ipc::Channel::receive", device, socket);
    if (files.size() != 1) return open_segment(open_memory(device, wire, files));
    spi::StrangerFd file = files.front().duplicate();  // if there is no memory to count it, its file is still there
    return open_segment(open_memory(device, wire, {&file, 1}));
  });
}

}  // namespace weir::detail::channel
