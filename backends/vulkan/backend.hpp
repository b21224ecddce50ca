// SPDX-License-Identifier: Apache-2.0
#pragma once
// The backend's table and how its parts recognise their own.

#include "device.hpp"
#include "weir/spi/backend.hpp"

namespace weir::vulkan {

const spi::Backend* backend() noexcept;

/// Throw invalid_argument unless `device` is one of this backend's. `what` begins the message.
PhysicalDevice& physical(const Device& device, const char* what);

}  // namespace weir::vulkan
