// SPDX-License-Identifier: Apache-2.0
// A Vulkan loader that judges what a program does with a device, and passes every call on to the real one
// (JUDGED_VULKAN_REAL, or the system's). docs/testing.md says what it looks at.
#include <array>
#include <cstring>
#include <string_view>

#include "vulkan/tests/interpose.hpp"
#include "world.hpp"

namespace judge {
namespace {

using weir::vulkan::interpose::next_loader;

PFN_vkGetInstanceProcAddr real_instance_proc() {
  static const auto get = next_loader("JUDGED_VULKAN_REAL");
  return get;
}

/// What could touch memory behind the judge's back. No device has it.
constexpr std::array hidden{"vkQueueSubmit2",           "vkQueueSubmit2KHR",     "vkCmdPipelineBarrier2",
                            "vkCmdPipelineBarrier2KHR", "vkCmdCopyBuffer2",      "vkCmdCopyBuffer2KHR",
                            "vkQueueBindSparse",        "vkBindBufferMemory2",   "vkMapMemory2KHR",
                            "vkSignalSemaphoreKHR",     "vkWaitSemaphoresKHR",   "vkGetSemaphoreCounterValueKHR",
                            "vkGetDeviceQueue2",        "vkBindBufferMemory2KHR"};

PFN_vkVoidFunction judged(std::string_view name) {
#define JUDGED(function) \
  if (name == #function) return reinterpret_cast<PFN_vkVoidFunction>(&calls::function);
#include "functions.inc"
  return nullptr;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_proc(VkDevice device, const char* name) {
  const PFN_vkVoidFunction real = next().vkGetDeviceProcAddr(device, name);
  {
    const Lock lock(lock_of_all());
    if (!find(world().devices, device)) return real;
  }
  for (const char* function : hidden) {
    if (std::strcmp(name, function) == 0) return nullptr;
  }
  const PFN_vkVoidFunction instead = judged(name);
  return real && instead ? instead : real;
}

}  // namespace

namespace calls {

/// The loader's own functions find the device by its handle, so the first instance's serve all.
VkResult vkCreateInstance(const VkInstanceCreateInfo* info, const VkAllocationCallbacks* allocator, VkInstance* made) {
  const auto get = real_instance_proc();
  const auto create = reinterpret_cast<PFN_vkCreateInstance>(get(VK_NULL_HANDLE, "vkCreateInstance"));
  const VkResult result = create(info, allocator, made);
  if (result != VK_SUCCESS) return result;
  const Lock lock(lock_of_all());
#define JUDGED(name) \
  if (!next().name) next().name = reinterpret_cast<PFN_##name>(get(*made, #name));
#include "functions.inc"
  return VK_SUCCESS;
}

PFN_vkVoidFunction vkGetDeviceProcAddr(VkDevice device, const char* name) { return device_proc(device, name); }

}  // namespace calls
}  // namespace judge

#pragma GCC visibility push(default)
extern "C" VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char* name) {
  if (std::string_view(name) == "vkGetInstanceProcAddr")
    return reinterpret_cast<PFN_vkVoidFunction>(&vkGetInstanceProcAddr);
  const auto get = judge::real_instance_proc();
  const PFN_vkVoidFunction real = get ? get(instance, name) : nullptr;
  const PFN_vkVoidFunction instead = judge::judged(name);
  return real && instead ? instead : real;
}
#pragma GCC visibility pop
