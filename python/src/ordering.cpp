// SPDX-License-Identifier: Apache-2.0

#include "ordering.hpp"

#include <vector>

#include "weir/spi/block.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::python {

namespace {

void show_to_host(const Buffer& buffer, spi::ByteRange shown) {
  const auto at = buffer.location();
  if (!at.segment->host_coherent && shown.bytes != 0)
    at.segment->before_host_read(at.offset + shown.offset, shown.bytes);
}

Event event_of(const spi::Point& use) { return {spi::Ref<spi::StreamState>::retain(use.stream.get()), use.value}; }

/// The streams are asked without the GIL, because handing their work on may need a queue whose lock is Python's.
void wait_on_host(const Buffer& buffer, spi::ByteRange shown) {
  const auto points = without_gil([&] {
    std::vector<spi::Point> all = buffer.block()->uses_before(nullptr);
    std::erase_if(all, [](const spi::Point& use) { return event_of(use).done(); });
    return all;
  });
  for (const spi::Point& use : points) wait_for(event_of(use), std::nullopt);
  show_to_host(buffer, shown);
}

void complete(const Buffer& buffer, spi::ByteRange shown) {
  if (buffer.size() == 0) return;
  if (!buffer.block()->known_complete()) return wait_on_host(buffer.share(), shown);
  show_to_host(buffer, shown);
}

}  // namespace

void complete_on_host(const Buffer& buffer) { complete(buffer, {0, buffer.size()}); }

void complete_on_host(const Buffer& buffer, const spi::Elements& elements) {
  complete(buffer, spi::reach_of(elements));
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
