// SPDX-License-Identifier: Apache-2.0
#include "making.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace weir::vulkan::test {

#define GET(name) reinterpret_cast<PFN_##name>(get(instance, #name))

VkInstance make_instance(PFN_vkGetInstanceProcAddr get, VkInstanceCreateInfo info) {
  VkApplicationInfo application{};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.apiVersion = VK_API_VERSION_1_2;
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
  VkInstance instance = VK_NULL_HANDLE;
  const auto create = GET(vkCreateInstance);
  return create && create(&info, nullptr, &instance) == VK_SUCCESS ? instance : VK_NULL_HANDLE;
}

VkPhysicalDevice first_device(PFN_vkGetInstanceProcAddr get, VkInstance instance) {
  std::uint32_t count = 1;
  VkPhysicalDevice first = VK_NULL_HANDLE;
  const VkResult found = GET(vkEnumeratePhysicalDevices)(instance, &count, &first);
  return found >= 0 && count != 0 ? first : VK_NULL_HANDLE;  // VK_INCOMPLETE when there are more
}

VkDevice make_device(PFN_vkGetInstanceProcAddr get, VkInstance instance, VkPhysicalDevice physical,
                     std::uint32_t queues) {
  const std::vector<float> priorities(queues, 1.0F);
  VkDeviceQueueCreateInfo of_family{};
  of_family.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  of_family.queueCount = queues;
  of_family.pQueuePriorities = priorities.data();
  VkPhysicalDeviceVulkan12Features features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  VkPhysicalDeviceFeatures2 there{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &features, {}};
  GET(vkGetPhysicalDeviceFeatures2)(physical, &there);
  const VkBool32 addresses = features.bufferDeviceAddress;
  features = {};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  features.timelineSemaphore = VK_TRUE;
  features.bufferDeviceAddress = addresses;
  const char* extension = VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME;
  VkDeviceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.pNext = &features;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &of_family;
  info.enabledExtensionCount = 1;
  info.ppEnabledExtensionNames = &extension;
  VkDevice device = VK_NULL_HANDLE;
  return GET(vkCreateDevice)(physical, &info, nullptr, &device) == VK_SUCCESS ? device : VK_NULL_HANDLE;
}

VkSemaphore make_timeline(VkDevice device, PFN_vkCreateSemaphore create) {
  VkSemaphoreTypeCreateInfo type{};
  type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
  info.pNext = &type;
  VkSemaphore semaphore = VK_NULL_HANDLE;
  EXPECT_EQ(create(device, &info, nullptr, &semaphore), VK_SUCCESS);
  return semaphore;
}

}  // namespace weir::vulkan::test
