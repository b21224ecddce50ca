// SPDX-License-Identifier: Apache-2.0
// The device as it is reported: more queues than the driver has, lower limits, other memory types. Only devices on a
// CPU are judged: those of GPUs are what they are.
#include <algorithm>
#include <span>

#include "mapping.hpp"
#include "world.hpp"

namespace judge {
namespace {

constexpr VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
constexpr VkMemoryPropertyFlags visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
constexpr VkMemoryPropertyFlags coherent = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
constexpr VkMemoryPropertyFlags cached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;

/// What discrete GPUs have: their own memory, the host's in two ways, and a window into their own. All of it is the
/// driver's first type.
constexpr VkMemoryPropertyFlags discrete[] = {local, visible | coherent, visible | coherent | cached,
                                              local | visible | coherent};
constexpr std::uint32_t heap_of[] = {0, 1, 1, 0};

bool is_judged(VkPhysicalDevice physical) {
  VkPhysicalDeviceProperties properties;
  next().vkGetPhysicalDeviceProperties(physical, &properties);
  return properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
}

void limit(VkPhysicalDeviceProperties& properties) {
  if (properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU) return;
  properties.limits.nonCoherentAtomSize = atom;
  if (settings().allocations != 0) properties.limits.maxMemoryAllocationCount = settings().allocations;
}

void rearrange(VkPhysicalDeviceMemoryProperties& memory) {
  const VkMemoryHeap heap = memory.memoryHeaps[0];
  memory.memoryTypeCount = std::size(discrete);
  for (std::size_t i = 0; i < std::size(discrete); ++i) memory.memoryTypes[i] = {discrete[i], heap_of[i]};
  memory.memoryHeapCount = 2;
  memory.memoryHeaps[0] = {heap.size, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
  memory.memoryHeaps[1] = {heap.size, 0};
}

std::vector<VkQueueFamilyProperties> families_of(VkPhysicalDevice physical) {
  std::uint32_t count = 0;
  next().vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  next().vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, families.data());
  return families;
}

/// A place in clocks. The commands of a queue that had it are over.
int take_place() {
  auto& taken = world().taken;
  const auto free = std::find(taken.begin(), taken.end(), false);
  if (free == taken.end()) std::abort();
  *free = true;
  return static_cast<int>(free - taken.begin());
}

void add_queue(VkQueue handle, VkQueue real, Device& device) {
  auto& queue = world().queues[handle];
  if (queue) return;
  queue = std::make_unique<Queue>();
  queue->real = real;
  queue->device = &device;
  queue->place = take_place();
  queue->issued = world().issued[static_cast<std::size_t>(queue->place)];
}

}  // namespace

MemoryType memory_type(std::uint32_t reported) {
  if (!settings().discrete || reported >= std::size(discrete)) return {reported, true, true};
  return {0, (discrete[reported] & visible) != 0, (discrete[reported] & coherent) != 0};
}

std::uint32_t reported_types(std::uint32_t real_bits) {
  if (!settings().discrete) return real_bits;
  return (real_bits & 1) != 0 ? (1u << std::size(discrete)) - 1 : 0;
}

namespace calls {

void vkGetPhysicalDeviceProperties(VkPhysicalDevice physical, VkPhysicalDeviceProperties* properties) {
  next().vkGetPhysicalDeviceProperties(physical, properties);
  limit(*properties);
}

void vkGetPhysicalDeviceProperties2(VkPhysicalDevice physical, VkPhysicalDeviceProperties2* properties) {
  next().vkGetPhysicalDeviceProperties2(physical, properties);
  limit(properties->properties);
}

void vkGetPhysicalDeviceMemoryProperties(VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties* memory) {
  next().vkGetPhysicalDeviceMemoryProperties(physical, memory);
  if (settings().discrete && is_judged(physical)) rearrange(*memory);
}

void vkGetPhysicalDeviceMemoryProperties2(VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties2* memory) {
  next().vkGetPhysicalDeviceMemoryProperties2(physical, memory);
  if (!settings().discrete || !is_judged(physical)) return;
  rearrange(memory->memoryProperties);
  for (auto* at = static_cast<VkBaseOutStructure*>(memory->pNext); at; at = at->pNext) {
    if (at->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT) continue;
    auto* budget = reinterpret_cast<VkPhysicalDeviceMemoryBudgetPropertiesEXT*>(at);
    budget->heapBudget[1] = budget->heapBudget[0];
    budget->heapUsage[1] = budget->heapUsage[0];
  }
}

void vkGetPhysicalDeviceQueueFamilyProperties(VkPhysicalDevice physical, std::uint32_t* count,
                                              VkQueueFamilyProperties* families) {
  next().vkGetPhysicalDeviceQueueFamilyProperties(physical, count, families);
  if (!families || !is_judged(physical)) return;
  for (auto& family : std::span(families, *count)) family.queueCount = std::max(family.queueCount, settings().queues);
}

VkResult vkCreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                        const VkAllocationCallbacks* allocator, VkDevice* made) {
  if (!is_judged(physical)) return next().vkCreateDevice(physical, info, allocator, made);
  const auto families = families_of(physical);
  std::vector<VkDeviceQueueCreateInfo> queues(info->pQueueCreateInfos,
                                              info->pQueueCreateInfos + info->queueCreateInfoCount);
  for (auto& of_family : queues)
    of_family.queueCount = std::min(of_family.queueCount, families.at(of_family.queueFamilyIndex).queueCount);
  VkDeviceCreateInfo real = *info;
  real.pQueueCreateInfos = queues.data();
  const VkResult result = next().vkCreateDevice(physical, &real, allocator, made);
  if (result != VK_SUCCESS) return result;
  const Lock lock(lock_of_all());
  auto device = std::make_unique<Device>();
  device->handle = *made;
  device->physical = physical;
  device->family = queues.front().queueFamilyIndex;
  device->real_queues = queues.front().queueCount;
  device->get_fd = reinterpret_cast<PFN_vkGetMemoryFdKHR>(next().vkGetDeviceProcAddr(*made, "vkGetMemoryFdKHR"));
  world().devices[*made] = std::move(device);
  return VK_SUCCESS;
}

void vkDestroyDevice(VkDevice handle, const VkAllocationCallbacks* allocator) {
  Lock lock(lock_of_all());
  auto& all = world();
  if (Device* device = find(all.devices, handle)) {
    for (auto& [name, queue] : all.queues) {
      if (queue->device == device && !all.host.over.covers(Point{queue->place, queue->issued}))
        violation("vkDestroyDevice", "work on queue " + std::to_string(queue->place) + " is not known to be over");
    }
    come_to_rest(*device);
    for (VkSemaphore semaphore : device->ended) next().vkDestroySemaphore(handle, semaphore, nullptr);
    for (auto& [name, queue] : all.queues) {
      if (queue->device != device) continue;
      all.issued[static_cast<std::size_t>(queue->place)] = queue->issued;
      all.taken[static_cast<std::size_t>(queue->place)] = false;
    }
    std::erase_if(all.queues, [device](const auto& entry) { return entry.second->device == device; });
    std::erase_if(all.memories, [device](const auto& entry) { return entry.second->device == device; });
    all.devices.erase(handle);
  }
  lock.unlock();
  next().vkDestroyDevice(handle, allocator);
}

void vkGetDeviceQueue(VkDevice handle, std::uint32_t family, std::uint32_t index, VkQueue* queue) {
  const Lock lock(lock_of_all());
  Device* device = find(world().devices, handle);
  if (!device || family != device->family) return next().vkGetDeviceQueue(handle, family, index, queue);
  next().vkGetDeviceQueue(handle, family, index % device->real_queues, queue);
  const VkQueue real = *queue;
  // A handle that only the judge is ever given.
  static auto& names = *new std::map<std::pair<VkDevice, std::uint32_t>, std::unique_ptr<char>>;
  if (index >= device->real_queues) {
    auto& name = names[{handle, index}];
    if (!name) name = std::make_unique<char>();
    *queue = reinterpret_cast<VkQueue>(name.get());
  }
  add_queue(*queue, real, *device);
}

}  // namespace calls
}  // namespace judge
