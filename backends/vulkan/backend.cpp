// SPDX-License-Identifier: Apache-2.0
#include "backend.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>

#include "device.hpp"
#include "driver.hpp"
#include "errors.hpp"
#include "logical.hpp"
#include "segment.hpp"
#include "stream.hpp"
#include "weir/error.hpp"
#include "weir/vulkan.hpp"

namespace weir::vulkan {
namespace {

PhysicalDevice& own(spi::DeviceState& device) { return static_cast<PhysicalDevice&>(device); }

int place(VkPhysicalDeviceType type) noexcept {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return 0;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return 1;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return 3;
    default: return 4;
  }
}

std::vector<VkPhysicalDevice> physical_devices(const Instance& instance, std::string& reason) {
  std::vector<VkPhysicalDevice> found;
  std::uint32_t count = 0;
  VkResult result;
  do {
    result = instance.fn.vkEnumeratePhysicalDevices(instance.handle, &count, nullptr);
    found.resize(count);
    if (result >= 0 && count > 0)
      result = instance.fn.vkEnumeratePhysicalDevices(instance.handle, &count, found.data());
  } while (result == VK_INCOMPLETE);
  found.resize(result < 0 ? 0 : count);
  if (found.empty()) {
    reason = result < 0 ? "vkEnumeratePhysicalDevices failed with " + std::string(result_name(result))
                        : std::string("the Vulkan loader found no device");
    reason += ": install mesa-vulkan-drivers or the GPU vendor's driver";
  }
  std::stable_sort(found.begin(), found.end(), [&instance](VkPhysicalDevice a, VkPhysicalDevice b) {
    VkPhysicalDeviceProperties first, second;
    instance.fn.vkGetPhysicalDeviceProperties(a, &first);
    instance.fn.vkGetPhysicalDeviceProperties(b, &second);
    return place(first.deviceType) < place(second.deviceType);
  });
  return found;
}

std::vector<spi::DeviceState*> devices(std::string& reason) {
  std::vector<spi::DeviceState*> devices;
  const Instance* instance = open_instance(reason);
  if (!instance) return devices;
  std::vector<std::unique_ptr<PhysicalDevice>> found;
  std::string rejected;
  for (auto* handle : physical_devices(*instance, reason)) {
    if (auto why = PhysicalDevice::unsuitable(*instance, handle); !why.empty())
      rejected += (rejected.empty() ? "no device is suitable: " : "; ") + why;
    else
      found.push_back(std::make_unique<PhysicalDevice>(*instance, handle, static_cast<int>(found.size())));
  }
  devices.reserve(found.size());
  for (auto& device : found) devices.push_back(device.release());  // they live as long as the process
  if (devices.empty() && !rejected.empty()) reason = rejected;
  return devices;
}

spi::Segment* reserve(spi::DeviceState& device, const spi::SegmentRequest& request, Shortage& shortage) {
  const PhysicalDevice::Making making(own(device));
  return Memory::make(making.logical(), request.kind, request.bytes, request.exportable, shortage,
                      static_cast<VkBufferUsageFlags>(request.flags));
}

spi::ExportedHandle export_handle(spi::Segment& segment) {
  const auto& memory = static_cast<Memory&>(segment);
  return {spi::HandleKind::vulkan_opaque_fd, memory.export_fd(), memory.allocation_size, memory.dedicated};
}

bool imports(const spi::DeviceState& device, spi::HandleKind kind) noexcept {
  const auto* info = device.find(MemoryKind::device);
  return kind == spi::HandleKind::vulkan_opaque_fd && info && info->exportable;
}

spi::Segment* import_handle(spi::DeviceState& device, spi::ImportRequest request) {
  const PhysicalDevice::Making making(own(device));
  return Memory::import(making.logical(), request.memory_kind, request.size, request.read_only, request.fd);
}

bool views(const spi::DeviceState& device, spi::HandleKind kind) noexcept {
  const auto* info = device.find(MemoryKind::device);
  return kind == spi::HandleKind::cuda_vmm_fd && info && info->exportable;
}

spi::Segment* open_view(spi::DeviceState& device, const spi::Segment& of, spi::ExportedHandle handle) {
  const PhysicalDevice::Making making(own(device));
  return Memory::view(making.logical(), of, std::move(handle));
}

// Mesa's CPU drivers keep a header with sizes and offsets in front of the memory.
bool believes_files(const spi::DeviceState& device) noexcept { return !device.is_gpu; }

std::optional<spi::DeviceMemory> device_memory(spi::DeviceState& device, MemoryKind kind) noexcept {
  const PhysicalDevice& physical = own(device);
  const auto type = physical.memory_type(kind, ~0u);
  return !physical.is_closed() && type ? physical.heap(*type) : std::nullopt;
}

spi::StreamState* create_stream(spi::DeviceState& device) {
  const PhysicalDevice::Making making(own(device));
  return new BatchedStream(making.logical());
}

bool reaches(const spi::DeviceState& device, const spi::Segment& segment) noexcept { return segment.device == &device; }

const spi::SegmentOps segments{.reserve = reserve,
                               .export_handle = export_handle,
                               .imports = imports,
                               .import_handle = import_handle,
                               .believes_files = believes_files,
                               .exports = spi::HandleKind::vulkan_opaque_fd,
                               .views = views,
                               .open_view = open_view,
                               .wrap = nullptr,
                               .device_memory = device_memory};
const spi::StreamOps streams{.create = create_stream, .reaches = reaches};
const spi::Backend table{.name = "vulkan",
                         .rank = 10,
                         .devices = devices,
                         .segments = &segments,
                         .streams = &streams,
                         .ended = process_ends};

}  // namespace

const spi::Backend* backend() noexcept { return &table; }

PhysicalDevice& physical(const Device& device, const char* what) {
  if (device.backend() != table.name)
    throw Error(Errc::invalid_argument, std::string(what) + ": " + device.id() + " is not a Vulkan device");
  return own(device.state());
}

}  // namespace weir::vulkan
