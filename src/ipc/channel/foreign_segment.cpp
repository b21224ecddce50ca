// SPDX-License-Identifier: Apache-2.0
#include "ipc/channel/foreign_segment.hpp"

#include "ipc/foreign_memory.hpp"

namespace weir::detail::channel {

OpenSegment ForeignSegment::open(spi::DeviceState& preferred) {
  const std::scoped_lock lock(opening_);
  return memory_.get([&](spi::StrangerFd file) {
    return open_segment(open_memory(device_of(wire, preferred), wire, std::move(file)));
  });
}

}  // namespace weir::detail::channel
