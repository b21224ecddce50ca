// SPDX-License-Identifier: Apache-2.0
#pragma once
// The backend's table, and how the parts of the backend recognise their own devices.

#include "device.hpp"
#include "weir/spi/backend.hpp"

namespace weir::vulkan {

const spi::Backend* backend() noexcept;

/// Return the state of `device`. Throws invalid_argument unless it is a device of this backend; the message begins with
/// `what`.
PhysicalDevice& physical(const Device& device, const char* what);

}  // namespace weir::vulkan
