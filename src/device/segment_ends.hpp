// SPDX-License-Identifier: Apache-2.0
#pragma once
// Others may have been told of a segment by its identity. They hear here of its end.

#include "weir/spi/segment.hpp"

namespace weir::detail {

using SegmentEnd = void (*)(const spi::Segment& segment) noexcept;

/// Have `hear` called, from now on, with each segment that has an identity and ends. It is called before anything else
/// can have the segment's address, on any thread. There is room for one function.
void answer_for_segment_ends(SegmentEnd hear) noexcept;

}  // namespace weir::detail
