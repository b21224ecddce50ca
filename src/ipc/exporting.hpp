// SPDX-License-Identifier: Apache-2.0
#pragma once
// What every way of sharing memory with another process needs to know of it.

#include "ipc/wire.hpp"
#include "weir/buffer.hpp"
#include "weir/spi/segment.hpp"

namespace weir::detail {

/// Throw unsupported or invalid_argument, in the name of `operation`, if the buffer cannot go to another process.
void check_shareable(const char* operation, const Buffer& buffer);

/// Return what names the whole segment, except for its handle.
[[nodiscard]] WireDescriptor describe_memory(spi::Segment& segment);

}  // namespace weir::detail
