// SPDX-License-Identifier: Apache-2.0
// An application that brings its own VkDevice: weir adopts it, allocates and copies there, and gives it back.
#include <dlfcn.h>
#include <vulkan/vulkan.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

#include "weir/vulkan.hpp"
#include "weir/weir.hpp"

namespace {

/// What an application has before it meets weir.
struct Application {
  PFN_vkGetInstanceProcAddr get = nullptr;
  VkInstance instance = VK_NULL_HANDLE;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  VkDevice device = VK_NULL_HANDLE;
  std::uint32_t family = 0;
  VkQueue queue = VK_NULL_HANDLE;
  std::mutex queue_mutex;  // both the application and weir hold it around every use of the queue

  Application() = default;
  Application(const Application&) = delete;
  Application& operator=(const Application&) = delete;
  ~Application();
  bool open();

 private:
  bool choose();
};

#define CALL(name) reinterpret_cast<PFN_##name>(get(instance, #name))

// The first device of Vulkan 1.2 with timeline semaphores, and a family of it that computes.
bool Application::choose() {
  std::uint32_t count = 0;
  CALL(vkEnumeratePhysicalDevices)(instance, &count, nullptr);
  std::vector<VkPhysicalDevice> devices(count);
  CALL(vkEnumeratePhysicalDevices)(instance, &count, devices.data());
  for (VkPhysicalDevice candidate : devices) {
    VkPhysicalDeviceProperties properties;
    CALL(vkGetPhysicalDeviceProperties)(candidate, &properties);
    if (properties.apiVersion < VK_API_VERSION_1_2) continue;
    VkPhysicalDeviceVulkan12Features known{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceFeatures2 features{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &known};
    CALL(vkGetPhysicalDeviceFeatures2)(candidate, &features);
    if (!known.timelineSemaphore) continue;
    CALL(vkGetPhysicalDeviceQueueFamilyProperties)(candidate, &count, nullptr);
    std::vector<VkQueueFamilyProperties> families(count);
    CALL(vkGetPhysicalDeviceQueueFamilyProperties)(candidate, &count, families.data());
    const auto found = std::find_if(families.begin(), families.end(), [](const VkQueueFamilyProperties& one) {
      return (one.queueFlags & VK_QUEUE_COMPUTE_BIT) != 0;
    });
    if (found == families.end()) continue;
    physical = candidate;
    family = static_cast<std::uint32_t>(found - families.begin());
    return true;
  }
  return false;
}

bool Application::open() {
  void* const library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return false;
  get = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
  const VkApplicationInfo about{.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_2};
  const VkInstanceCreateInfo of_instance{.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &about};
  if (CALL(vkCreateInstance)(&of_instance, nullptr, &instance) != VK_SUCCESS || !choose()) return false;

  const float priority = 1.0f;
  const VkDeviceQueueCreateInfo queues{.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                       .queueFamilyIndex = family,
                                       .queueCount = 1,
                                       .pQueuePriorities = &priority};
  const VkPhysicalDeviceVulkan12Features features{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                                  .timelineSemaphore = VK_TRUE};  // weir needs it
  const VkDeviceCreateInfo of_device{.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                     .pNext = &features,
                                     .queueCreateInfoCount = 1,
                                     .pQueueCreateInfos = &queues};
  if (CALL(vkCreateDevice)(physical, &of_device, nullptr, &device) != VK_SUCCESS) return false;
  CALL(vkGetDeviceQueue)(device, family, 0, &queue);
  return true;
}

Application::~Application() {
  if (device) CALL(vkDestroyDevice)(device, nullptr);
  if (instance) CALL(vkDestroyInstance)(instance, nullptr);
}

/// Everything that uses the device through weir ends in here, before the device is given back.
bool copies(const weir::Device& device) {
  const weir::Stream stream{device};
  const weir::PoolPtr pool = weir::make_pool(device);
  weir::Buffer buffer = pool->allocate(1 << 20, stream);
  buffer.fill(std::byte{42}, stream);
  weir::Buffer twin = buffer.copy_to(stream);
  std::vector<std::byte> bytes(twin.size());
  twin.copy_to(bytes, stream);
  stream.synchronize();
  std::printf("%zu bytes on %s (%s) hold %d\n", bytes.size(), device.id().c_str(), std::string(device.name()).c_str(),
              std::to_integer<int>(bytes.back()));
  return bytes.front() == std::byte{42} && bytes.back() == std::byte{42};
}

}  // namespace

int main() {
  Application app;
  if (!app.open()) {
    std::puts(
        "There is no Vulkan device that weir could adopt (`weir devices` says more), so the host copies instead.");
    return copies(weir::host_device()) ? 0 : 1;
  }
  weir::vulkan::AdoptOptions options;
  options.instance = app.instance;
  options.physical_device = app.physical;
  options.device = app.device;
  options.get_instance_proc_addr = app.get;
  options.queue_family = app.family;
  options.queues = {{app.queue, [&app] { app.queue_mutex.lock(); }, [&app] { app.queue_mutex.unlock(); }}};
  options.timeline_semaphore = true;

  const weir::Device device = weir::vulkan::adopt(options);
  const bool right = copies(device);
  weir::vulkan::release(device);  // waits for weir's work; now the application may destroy its device
  return right ? 0 : 1;
}
