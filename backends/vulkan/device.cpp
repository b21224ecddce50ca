// SPDX-License-Identifier: Apache-2.0
#include "device.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "backend.hpp"
#include "errors.hpp"
#include "logical.hpp"
#include "weir/error.hpp"

namespace weir::vulkan {
namespace {

constexpr MemoryKind staging = MemoryKind::readback;
constexpr std::uint32_t most_queues = 4;   // each costs 22 ms of vkCreateDevice on an H200
constexpr std::int32_t dlpack_cpu = 1;     // kDLCPU
constexpr std::int32_t dlpack_vulkan = 7;  // kDLVulkan

bool has_extension(const Instance& instance, VkPhysicalDevice device, std::string_view wanted) {
  constexpr const char* call = "vkEnumerateDeviceExtensionProperties";
  std::uint32_t count = 0;
  check(instance.fn.vkEnumerateDeviceExtensionProperties(device, nullptr, &count, nullptr), call, "a Vulkan device");
  std::vector<VkExtensionProperties> found(count);
  check(instance.fn.vkEnumerateDeviceExtensionProperties(device, nullptr, &count, found.data()), call,
        "a Vulkan device");
  for (const auto& extension : found)
    if (extension.extensionName == wanted) return true;
  return false;
}

std::vector<VkQueueFamilyProperties> families_of(const Instance& instance, VkPhysicalDevice device) {
  std::uint32_t count = 0;
  instance.fn.vkGetPhysicalDeviceQueueFamilyProperties(device, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  instance.fn.vkGetPhysicalDeviceQueueFamilyProperties(device, &count, families.data());
  return families;
}

// Return the family with the most queues among those that compute, which implies transfer.
std::optional<std::uint32_t> find_family(const Instance& instance, VkPhysicalDevice device, std::uint32_t& queues) {
  const auto families = families_of(instance, device);
  std::optional<std::uint32_t> best;
  queues = 0;
  for (std::uint32_t i = 0; i < families.size(); ++i) {
    if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) && families[i].queueCount > queues) {
      best = i;
      queues = families[i].queueCount;
    }
  }
  return best;
}

struct Features {
  VkPhysicalDeviceVulkan12Features vulkan12{};
  VkPhysicalDeviceFeatures2 all{};
  Features(const Instance& instance, VkPhysicalDevice device) {
    vulkan12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    all.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    all.pNext = &vulkan12;
    instance.fn.vkGetPhysicalDeviceFeatures2(device, &all);
  }
};

// The properties that a memory type must have for a kind, and how much each further property is worth.
struct Wish {
  VkMemoryPropertyFlags required;
  int device_local, host_visible, coherent, cached;
};

std::optional<Wish> wish(MemoryKind kind) noexcept {
  constexpr VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  constexpr VkMemoryPropertyFlags visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
  constexpr VkMemoryPropertyFlags coherent = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  switch (kind) {
    case MemoryKind::device: return Wish{local, 0, -1, 0, 0};
    case MemoryKind::upload: return Wish{visible | coherent, -1, 0, 0, -2};
    case MemoryKind::readback: return Wish{visible, -1, 0, 2, 4};
    case MemoryKind::mappable: return Wish{local | visible, 0, 0, 2, 1};
    default: return {};
  }
}

constexpr VkMemoryPropertyFlags usable_properties =
    VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT |
    VK_MEMORY_PROPERTY_HOST_CACHED_BIT;

int worth(const Wish& wish, VkMemoryPropertyFlags have) noexcept {
  const auto count = [have](VkMemoryPropertyFlags bit, int value) { return have & bit ? value : 0; };
  return count(VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, wish.device_local) +
         count(VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT, wish.host_visible) +
         count(VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, wish.coherent) +
         count(VK_MEMORY_PROPERTY_HOST_CACHED_BIT, wish.cached);
}

}  // namespace

std::string PhysicalDevice::unsuitable(const Instance& instance, VkPhysicalDevice handle) {
  VkPhysicalDeviceProperties properties;
  instance.fn.vkGetPhysicalDeviceProperties(handle, &properties);
  const std::string name = properties.deviceName;
  if (properties.apiVersion < lowest_api)
    return name + " has Vulkan " + version_string(properties.apiVersion) + ", weir needs 1.2";
  if (!Features(instance, handle).vulkan12.timelineSemaphore) return name + " has no timeline semaphores";
  std::uint32_t queues = 0;
  if (!find_family(instance, handle, queues)) return name + " has no compute queue";
  return {};
}

PhysicalDevice::PhysicalDevice(const Instance& from, VkPhysicalDevice physical, int number, const Enabled* enabled)
    : instance(from), handle(physical) {
  backend = vulkan::backend();
  ordinal = number;
  read_properties();
  read_features(enabled);
  read_kinds();
}

PhysicalDevice::~PhysicalDevice() = default;

void PhysicalDevice::read_properties() {
  VkPhysicalDeviceProperties basic;
  instance.fn.vkGetPhysicalDeviceProperties(handle, &basic);
  VkPhysicalDeviceVulkan13Properties vulkan13{};
  vulkan13.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES;
  VkPhysicalDeviceDriverProperties driver_properties{};
  driver_properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES;
  VkPhysicalDeviceIDProperties ids{};
  ids.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES;
  ids.pNext = &driver_properties;
  VkPhysicalDeviceProperties2 all{};
  all.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  all.pNext = &ids;
  const bool is_13 = basic.apiVersion >= VK_API_VERSION_1_3 && instance.api >= VK_API_VERSION_1_3;
  if (is_13) driver_properties.pNext = &vulkan13;
  instance.fn.vkGetPhysicalDeviceProperties2(handle, &all);

  name = basic.deviceName;
  driver = std::string(driver_properties.driverName) + ' ' + driver_properties.driverInfo + ", Vulkan " +
           version_string(basic.apiVersion);
  static_assert(sizeof uuid.bytes == VK_UUID_SIZE);
  std::memcpy(uuid.bytes.data(), ids.deviceUUID, VK_UUID_SIZE);
  device_type = basic.deviceType;
  is_gpu = device_type != VK_PHYSICAL_DEVICE_TYPE_CPU;
  max_allocations = basic.limits.maxMemoryAllocationCount;
  if (is_13 && vulkan13.maxBufferSize) max_buffer_size = vulkan13.maxBufferSize;
}

void PhysicalDevice::read_features(const Enabled* enabled) {
  memory_budget = has_extension(instance, handle, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  if (enabled) {
    family = enabled->family;
    queue_count = enabled->queue_count;
    device_address = enabled->device_address;
    memory_fd = enabled->memory_fd;
    const auto families = families_of(instance, handle);
    computes = family < families.size() && (families[family].queueFlags & VK_QUEUE_COMPUTE_BIT);
    return;
  }
  computes = true;
  family = find_family(instance, handle, queue_count).value_or(0);
  queue_count = std::min(queue_count, most_queues);
  device_address = Features(instance, handle).vulkan12.bufferDeviceAddress;
  memory_fd = has_extension(instance, handle, VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME);
}

void PhysicalDevice::read_kinds() {
  VkPhysicalDeviceMemoryProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
  instance.fn.vkGetPhysicalDeviceMemoryProperties2(handle, &properties);
  memory_ = properties.memoryProperties;
  for (std::uint32_t i = 0; i < memory_.memoryHeapCount; ++i) {
    if (memory_.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) total_memory += memory_.memoryHeaps[i].size;
  }

  const bool exportable = shares(0);
  for (auto kind : {MemoryKind::device, MemoryKind::mappable, MemoryKind::upload, MemoryKind::readback})
    add_kind(kind, exportable);
  default_kind = MemoryKind::device;
  staging_kind = staging;
}

bool PhysicalDevice::shares(VkBufferUsageFlags extra_usage) const noexcept {
  VkPhysicalDeviceExternalBufferInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO;
  info.usage = usage() | extra_usage;
  info.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  VkExternalBufferProperties external{};
  external.sType = VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES;
  instance.fn.vkGetPhysicalDeviceExternalBufferProperties(handle, &info, &external);
  constexpr VkExternalMemoryFeatureFlags both =
      VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT | VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT;
  return memory_fd && (external.externalMemoryProperties.externalMemoryFeatures & both) == both;
}

void PhysicalDevice::add_kind(MemoryKind kind, bool exportable) {
  if (!memory_type(kind, ~0u)) return;
  KindInfo info;
  info.kind = kind;
  info.host_accessible = knobs().force_staging ? kind == staging : kind != MemoryKind::device;
  info.device_accessible = true;
  // Drivers of discrete GPUs (NVIDIA's) cannot share memory of the type behind the BAR. Only a VkDevice could tell for
  // sure.
  const bool behind_bar =
      kind == MemoryKind::mappable && memory_type(kind, ~0u) != memory_type(MemoryKind::device, ~0u);
  info.exportable = exportable && !behind_bar;
  info.alignment = default_alignment;
  info.granularity = granularity;
  info.dlpack_device = info.host_accessible ? dlpack_cpu : dlpack_vulkan;
  kinds.push_back(info);
}

const char* PhysicalDevice::missing_in(const DeviceTable& functions) const noexcept {
  if (memory_fd && !functions.vkGetMemoryFdKHR) return "vkGetMemoryFdKHR";
  if (device_address && !functions.vkGetBufferDeviceAddress) return "vkGetBufferDeviceAddress";
  return nullptr;
}

std::optional<std::uint32_t> PhysicalDevice::memory_type(MemoryKind kind, std::uint32_t allowed) const noexcept {
  const auto wanted = wish(kind);
  std::optional<std::uint32_t> best;
  for (std::uint32_t i = 0; wanted && i < memory_.memoryTypeCount; ++i) {
    const auto have = type(i).propertyFlags;
    if (!(allowed >> i & 1u) || (have & ~usable_properties) || (have & wanted->required) != wanted->required) continue;
    if (!best || worth(*wanted, have) > worth(*wanted, type(*best).propertyFlags)) best = i;
  }
  return best;
}

std::optional<spi::DeviceMemory> PhysicalDevice::heap(std::uint32_t type_index) const noexcept {
  const DriverCall call(Doing::poll);
  if (!memory_budget || !call) return {};
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{};
  budget.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT;
  VkPhysicalDeviceMemoryProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
  properties.pNext = &budget;
  instance.fn.vkGetPhysicalDeviceMemoryProperties2(handle, &properties);
  const auto heap = type(type_index).heapIndex;
  const std::size_t all = budget.heapBudget[heap], used = budget.heapUsage[heap];
  return spi::DeviceMemory{all, all > used ? all - used : 0};
}

void PhysicalDevice::check_open() const {
  if (is_closed()) throw Error(Errc::closed, describe() + " was given back by vulkan::release");
}

Logical& PhysicalDevice::logical() {
  check_process();
  check_open();
  if (auto* made = logical_.load(std::memory_order_acquire)) return *made;
  const std::scoped_lock lock(mutex_);
  if (!owned_) owned_ = Logical::create(*this);
  logical_.store(owned_.get(), std::memory_order_release);
  return *owned_;
}

PhysicalDevice::Making::Making(PhysicalDevice& device) : device_(device), logical_(device.logical()) {
  const std::scoped_lock lock(device.mutex_);
  device.check_open();
  ++device.making_;
}

PhysicalDevice::Making::~Making() {
  const std::scoped_lock lock(device_.mutex_);
  --device_.making_;
}

bool PhysicalDevice::close() noexcept {
  const std::scoped_lock lock(mutex_);
  if (making_ != 0 || is_closed()) return false;
  closed_.store(true, std::memory_order_release);
  return true;
}

void PhysicalDevice::adopt(std::unique_ptr<Logical> adopted) noexcept {
  owned_ = std::move(adopted);
  logical_.store(owned_.get(), std::memory_order_release);
}
}  // namespace weir::vulkan
