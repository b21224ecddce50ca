// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace weir::bench {
namespace {

void must(VkResult result, const char* call) {
  if (result == VK_SUCCESS) return;
  throw std::runtime_error(std::string(call) + " failed with error " +
                           std::to_string(static_cast<int>(result)));
}

PFN_vkGetInstanceProcAddr find_loader() {
  const char* path = std::getenv("WEIR_VULKAN_LIBRARY");
  void* library = dlopen(path && *path ? path : "libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(dlerror());
  auto* const found = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
  if (!found) throw std::runtime_error("the Vulkan loader has no vkGetInstanceProcAddr");
  return found;
}

}  // namespace

#define WEIR_BENCH_VULKAN_SYMBOLS(X)                                                                     \
  X(vkDestroyInstance)                                                                                   \
  X(vkEnumeratePhysicalDevices) X(vkGetPhysicalDeviceProperties2) X(vkGetPhysicalDeviceMemoryProperties) \
      X(vkCreateDevice) X(vkDestroyDevice) X(vkAllocateMemory) X(vkFreeMemory)

struct VulkanMemory::Api {
#define WEIR_BENCH_DECLARE(name) PFN_##name name = nullptr;
  WEIR_BENCH_VULKAN_SYMBOLS(WEIR_BENCH_DECLARE)
#undef WEIR_BENCH_DECLARE
};

VulkanMemory::VulkanMemory(const Device& device) : api_(std::make_unique<Api>()) {
  find_functions();
  find_device(device);
  make_device();
}

VulkanMemory::~VulkanMemory() {
  api_->vkDestroyDevice(device_, nullptr);
  api_->vkDestroyInstance(instance_, nullptr);
}

void VulkanMemory::find_functions() {
  auto* const get = find_loader();
  auto* const create = reinterpret_cast<PFN_vkCreateInstance>(get(nullptr, "vkCreateInstance"));
  if (!create) throw std::runtime_error("the Vulkan loader has no vkCreateInstance");
  VkApplicationInfo application{};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.apiVersion = VK_API_VERSION_1_2;
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
  must(create(&info, nullptr, &instance_), "vkCreateInstance");
#define WEIR_BENCH_LOAD(name)                                       \
  api_->name = reinterpret_cast<PFN_##name>(get(instance_, #name)); \
  if (!api_->name) throw std::runtime_error("the Vulkan driver has no " #name);
  WEIR_BENCH_VULKAN_SYMBOLS(WEIR_BENCH_LOAD)
#undef WEIR_BENCH_LOAD
}

void VulkanMemory::find_device(const Device& device) {
  std::uint32_t count = 0;
  must(api_->vkEnumeratePhysicalDevices(instance_, &count, nullptr), "vkEnumeratePhysicalDevices");
  std::vector<VkPhysicalDevice> all(count);
  must(api_->vkEnumeratePhysicalDevices(instance_, &count, all.data()), "vkEnumeratePhysicalDevices");
  for (VkPhysicalDevice each : all) {
    VkPhysicalDeviceIDProperties id{};
    id.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES;
    VkPhysicalDeviceProperties2 properties{};
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    properties.pNext = &id;
    api_->vkGetPhysicalDeviceProperties2(each, &properties);
    if (std::ranges::equal(id.deviceUUID, device.uuid().bytes)) physical_ = each;
  }
  if (!physical_) throw std::runtime_error("Vulkan has no device " + device.uuid().to_string());
}

void VulkanMemory::make_device() {
  VkPhysicalDeviceMemoryProperties memory;
  api_->vkGetPhysicalDeviceMemoryProperties(physical_, &memory);
  while (memory_type_ < memory.memoryTypeCount &&
         !(memory.memoryTypes[memory_type_].propertyFlags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT)) {
    ++memory_type_;
  }
  if (memory_type_ == memory.memoryTypeCount) throw std::runtime_error("no device-local memory");
  const float priority = 1;
  VkDeviceQueueCreateInfo queue{};
  queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkDeviceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  must(api_->vkCreateDevice(physical_, &info, nullptr, &device_), "vkCreateDevice");
}

VulkanMemory::Held VulkanMemory::allocate(std::size_t bytes, const Stream&) const {
  VkMemoryAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  info.allocationSize = bytes;
  info.memoryTypeIndex = memory_type_;
  VkDeviceMemory memory = nullptr;
  must(api_->vkAllocateMemory(device_, &info, nullptr, &memory), "vkAllocateMemory");
  return memory;
}

void VulkanMemory::free(Held& held, const Stream&) const noexcept {
  api_->vkFreeMemory(device_, std::exchange(held, nullptr), nullptr);
}

Subject<VulkanMemory> vulkan_memory(const Device& device) {
  // One for all rows: an instance and a device take longer to make than a row runs. Nothing of it outlives a
  // row.
  const auto shared = [device](std::size_t) {
    static const auto& made = *new auto(std::make_shared<VulkanMemory>(device));  // for ever
    return made;
  };
  return {"vulkan", "vkAllocateMemory", shared, true};
}

}  // namespace weir::bench
