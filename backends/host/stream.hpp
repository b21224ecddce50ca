// SPDX-License-Identifier: Apache-2.0
#pragma once
// Host streams. Work runs at once on the caller's thread when nothing is pending, and otherwise on the stream's worker.

#include "weir/spi/backend.hpp"

namespace weir::host {

spi::StreamState* create_stream(spi::DeviceState& device);
/// Return whether the host can address the segment. The host copies and fills all such memory, of any backend.
bool reaches(const spi::DeviceState& device, const spi::Segment& segment) noexcept;

}  // namespace weir::host
