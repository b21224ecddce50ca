// SPDX-License-Identifier: Apache-2.0
#pragma once
// The Vulkan objects that a program makes before it can do anything: for tests that call Vulkan themselves.

#include <cstdint>

#include "vulkan/driver.hpp"

namespace weir::vulkan::test {

/// An instance of Vulkan 1.2 with the layers, extensions and further structures that `info` names. Null when the driver
/// refuses.
VkInstance make_instance(PFN_vkGetInstanceProcAddr get, VkInstanceCreateInfo info = {});

/// Null when there is none.
VkPhysicalDevice first_device(PFN_vkGetInstanceProcAddr get, VkInstance instance);

/// A device that can do what weir asks of an application's: timeline semaphores, and memory that is shared by files. It
/// has `queues` queues of family 0, which computes on every driver we know. Null when the driver refuses.
VkDevice make_device(PFN_vkGetInstanceProcAddr get, VkInstance instance, VkPhysicalDevice physical,
                     std::uint32_t queues);

/// A timeline semaphore with the value 0. Null when the driver refuses.
VkSemaphore make_timeline(VkDevice device, PFN_vkCreateSemaphore create);

}  // namespace weir::vulkan::test
