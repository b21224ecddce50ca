// SPDX-License-Identifier: Apache-2.0
#pragma once
// Host streams: work runs at once on the caller's thread when nothing is pending, else on the stream's worker.

#include "weir/spi/backend.hpp"

namespace weir::host {

spi::StreamState* create_stream(spi::DeviceState& device);
/// The host copies and fills whatever it can address, of any backend.
bool reaches(const spi::DeviceState& device, const spi::Segment& segment) noexcept;

}  // namespace weir::host
