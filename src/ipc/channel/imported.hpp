// SPDX-License-Identifier: Apache-2.0
#pragma once
// Buffers over memory that a peer lent.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "weir/buffer.hpp"
#include "weir/spi/ref.hpp"
#include "weir/spi/segment.hpp"

namespace weir::detail::channel {

class Link;

/// A segment of a peer. It counts in the statistics as long as anybody has it.
struct OpenSegment {
  spi::Ref<spi::Segment> segment;
  std::shared_ptr<const void> counted;
};
[[nodiscard]] OpenSegment open_segment(spi::Ref<spi::Segment> segment);

/// Make a buffer over a range of a segment. When its last handle is closed and all its uses are complete, the grant goes
/// back to the peer. If this throws, nothing goes back.
[[nodiscard]] Buffer import_buffer(const OpenSegment& from, std::size_t offset, std::size_t bytes, const Stream& stream,
                                   std::shared_ptr<Link> link, std::uint64_t grant);

}  // namespace weir::detail::channel
