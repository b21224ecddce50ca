// SPDX-License-Identifier: Apache-2.0
#pragma once
// Buffers over memory that is named by an address, with the options that the public from_handle leaves at their
// defaults.

#include <functional>

#include "weir/buffer.hpp"

namespace weir::detail {

/// Make a buffer as Buffer::from_handle does, read-only if `read_only` is set.
[[nodiscard]] Buffer adopt_address(spi::DeviceState& device, std::uint64_t address, std::size_t bytes, bool read_only,
                                   std::function<void()> release, const Stream& stream);

/// Return a zero-byte buffer that belongs to the device's external resource.
[[nodiscard]] Buffer adopt_nothing(spi::DeviceState& device, const Stream& stream);

}  // namespace weir::detail
