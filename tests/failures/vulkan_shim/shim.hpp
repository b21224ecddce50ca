// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the Vulkan loader in shim.cpp exports besides vkGetInstanceProcAddr, for who opened it.

#include <cstddef>

namespace weir::test::vulkan_shim {

/// A call that failed. All null and 0 when none did.
struct Hit {
  const char* call;
  const char* code;
  std::size_t codes;
};

// failing_vulkan_arm: count from now on, let the nth fallible call fail with its `code` (modulo how many it has).
using Arm = void (*)(std::size_t nth, std::size_t code);
// failing_vulkan_disarm: fail nothing, and say what failed.
using Disarm = void (*)(Hit* out);
// failing_vulkan_alive: objects of one sort that exist, by the name of the call that makes them.
using Alive = long (*)(const char* call);
// failing_vulkan_around: functions to run before and after each call, on its thread.
using Around = void (*)(void (*enter)(), void (*leave)());

/// Objects that are counted: what makes one, what ends it.
struct Object {
  const char* maker;
  const char* end;
};
inline constexpr Object objects[] = {{"vkCreateBuffer", "vkDestroyBuffer"},
                                     {"vkAllocateMemory", "vkFreeMemory"},
                                     {"vkCreateSemaphore", "vkDestroySemaphore"},
                                     {"vkCreateCommandPool", "vkDestroyCommandPool"},
                                     {"vkCreateDevice", "vkDestroyDevice"}};

}  // namespace weir::test::vulkan_shim
