// SPDX-License-Identifier: Apache-2.0
#pragma once
// Others may have been told of a segment by its identity. They hear here of its end.

#include "weir/spi/segment.hpp"

namespace weir::detail {

using SegmentEnd = void (*)(spi::SegmentId id) noexcept;

/// Have `hear` called, from now on, with the identity of each segment that has one and ends. It is called before the
/// memory goes back to the driver, on any thread. There is room for one function.
void answer_for_segment_ends(SegmentEnd hear) noexcept;

}  // namespace weir::detail
