// SPDX-License-Identifier: Apache-2.0
#pragma once
// vkAllocateMemory and vkFreeMemory: what Vulkan has, and less than a user needs, who wants a VkBuffer
// besides. It knows no streams: memory may be freed once nobody uses it.

#include <vulkan/vulkan.h>

#include <cstddef>
#include <memory>

#include "support/allocator.hpp"
#include "weir/device.hpp"

namespace weir::bench {

class VulkanMemory {
 public:
  struct Stream {};
  using Held = VkDeviceMemory;

  /// On a VkDevice of its own, of the same physical device. Throws std::runtime_error.
  explicit VulkanMemory(const Device& device);
  VulkanMemory(const VulkanMemory&) = delete;
  VulkanMemory& operator=(const VulkanMemory&) = delete;
  ~VulkanMemory();  ///< after everything was freed

  [[nodiscard]] Stream stream() const { return {}; }
  [[nodiscard]] Held allocate(std::size_t bytes, const Stream&) const;
  void free(Held& held, const Stream&) const noexcept;
  void pair(std::size_t bytes, const Stream& stream) const {
    Held held = allocate(bytes, stream);
    free(held, stream);
  }
  void synchronize(const Stream&) const noexcept {}

 private:
  struct Api;
  void find_functions();
  void find_device(const Device& device);
  void make_device();

  std::unique_ptr<Api> api_;
  VkInstance instance_ = nullptr;
  VkPhysicalDevice physical_ = nullptr;
  VkDevice device_ = nullptr;
  std::uint32_t memory_type_ = 0;  // device-local
};
static_assert(Allocator<VulkanMemory>);

[[nodiscard]] Subject<VulkanMemory> vulkan_memory(const Device& device);

}  // namespace weir::bench
