// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Vulkan device and a device of the modelled CUDA driver that say they are one GPU, where no real GPU is.

#include <string>

#include "memory.hpp"

namespace weir::test {

/// If FAKE_CUDA_UUID names a device instead of giving digits ("vulkan:0"), put the UUID of that device there. Called
/// before any driver is loaded: another process of this program is asked.
void choose_same_gpu();

/// Whether this process is the one that is asked. Then it has said the UUID, and ends.
bool said_uuid();

/// Empty where a device has views of another's memory; else the reason.
std::string why_no_views();

extern const Subset viewed;    ///< exportable memory of which a device of another backend has views
extern const Subset unviewed;  ///< memory that only Vulkan reaches

}  // namespace weir::test
