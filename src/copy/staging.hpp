// SPDX-License-Identifier: Apache-2.0
#pragma once
// Host-accessible memory through which bytes pass, and streams on which devices move them: both kept per device.

#include "weir/buffer.hpp"

namespace weir::detail {

/// Largest piece that goes through staging memory at once, in bytes.
inline constexpr std::size_t staging_piece = std::size_t{8} << 20;

/// Staging memory on `device`, not in use by anybody. Given back by `recycle_staging`, or just closed.
[[nodiscard]] Buffer take_staging(spi::DeviceState& device, std::size_t bytes);
/// Keep `buffer` for later copies, once everything on `stream` so far is complete. Until then it keeps the streams
/// alive that it was used on, and not longer.
void recycle_staging(Buffer buffer, const Stream& stream);

/// A stream of `device` without pending work, for one copy. Nobody else uses it until it is recycled.
[[nodiscard]] Stream take_helper(spi::DeviceState& device);
void recycle_helper(Stream stream);

/// Drop what is kept for `device`, and every hold on streams that are done. For backends that end a device.
void forget_staging(spi::DeviceState& device);

}  // namespace weir::detail
