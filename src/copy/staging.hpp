// SPDX-License-Identifier: Apache-2.0
#pragma once
// Host-accessible memory through which bytes pass, and streams on which devices move them. Both are kept per device.

#include "weir/buffer.hpp"

namespace weir::detail {

/// Largest piece that goes through staging memory at once, in bytes.
inline constexpr std::size_t staging_piece = std::size_t{8} << 20;

/// Return at least `bytes` of staging memory on `device` that nobody uses. Give it back with `recycle_staging`, or just
/// close it.
[[nodiscard]] Buffer take_staging(spi::DeviceState& device, std::size_t bytes);
/// Keep `buffer` for later copies, once everything on `stream` so far is complete. Until then, and no longer, it keeps
/// the streams alive on which it was used.
void recycle_staging(Buffer buffer, const Stream& stream);

/// Return a stream of `device` without pending work, for one copy. Nobody else uses it until it is recycled.
[[nodiscard]] Stream take_helper(spi::DeviceState& device);
void recycle_helper(Stream stream);

/// Drop everything that is kept for `device`, and every hold on streams that are done. For backends that end a device.
void forget_staging(spi::DeviceState& device);

}  // namespace weir::detail
