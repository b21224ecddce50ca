// SPDX-License-Identifier: Apache-2.0
#include "ipc/channel/foreign_segment.hpp"

#include "ipc/foreign_memory.hpp"

namespace weir::detail::channel {

spi::Ref<spi::Segment> ForeignSegment::open(spi::DeviceState& preferred) {
  const std::scoped_lock lock(opening_);
  if (refusal_) std::rethrow_exception(refusal_);
  if (!segment_) {
    try {
      auto& device = device_of(wire, preferred);
      segment_ = open_memory(device, wire, std::move(file_));
    } catch (...) {
      file_.reset();
      refusal_ = std::current_exception();
      throw;
    }
  }
  return segment_;
}

}  // namespace weir::detail::channel
