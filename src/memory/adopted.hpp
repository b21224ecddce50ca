// SPDX-License-Identifier: Apache-2.0
#pragma once
// Buffers over memory named by an address, with everything that the public from_handle leaves at its default.

#include <functional>

#include "weir/buffer.hpp"

namespace weir::detail {

/// As Buffer::from_handle, and read-only if told so.
[[nodiscard]] Buffer adopt_address(spi::DeviceState& device, std::uint64_t address, std::size_t bytes, bool read_only,
                                   std::function<void()> release, const Stream& stream);

/// A zero-byte buffer that belongs to the device's external resource.
[[nodiscard]] Buffer adopt_nothing(spi::DeviceState& device, const Stream& stream);

}  // namespace weir::detail
