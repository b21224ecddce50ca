// SPDX-License-Identifier: Apache-2.0
#pragma once
// Names by which validation messages, RenderDoc and other tools show what weir makes. Where VK_EXT_debug_utils is not
// enabled, these functions do nothing. They never take memory, and never fail: a name that the driver refuses is left
// out.

#include <cstdint>

#include "driver.hpp"

namespace weir::vulkan {

class Logical;
class Memory;

/// Name the VkDeviceMemory of `memory` and its VkBuffer: "weir vulkan.device 2 MiB".
void name_memory(const Memory& memory) noexcept;
/// Name the timeline of a stream: "weir stream 12".
void name_timeline(const Logical& logical, VkSemaphore semaphore, std::uint64_t stream) noexcept;
/// Name memory that is held for nobody yet: "weir spare".
void name_spare(const Logical& logical, VkDeviceMemory memory) noexcept;

}  // namespace weir::vulkan
