// SPDX-License-Identifier: Apache-2.0

#include "ordering.hpp"

#include "weir/spi/block.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::python {

void complete_on_host(const Buffer& buffer) {
  if (buffer.size() == 0) return;
  spi::Block& block = *buffer.block();
  if (!block.known_complete()) {
    for (const spi::Point& use : block.uses_before(nullptr)) {
      const Event event{spi::Ref<spi::StreamState>::retain(use.stream.get()), use.value};
      if (!event.done()) wait_for(event, std::nullopt);
    }
  }
  spi::Segment& segment = *block.segment;
  if (!segment.host_coherent) segment.before_host_read(buffer.location().offset, buffer.size());
}

const Stream& host_stream() {
  thread_local const Stream stream{host_device()};
  return stream;
}

Stream allocation_stream(const Buffer& buffer) {
  auto* stream = buffer.block()->stream;
  return stream ? Stream{spi::Ref<spi::StreamState>::retain(stream)} : host_stream();
}

}  // namespace weir::python
