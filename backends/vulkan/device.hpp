// SPDX-License-Identifier: Apache-2.0
#pragma once
// A physical device: what it is, which memory types serve which kinds. Its VkDevice is in logical.hpp.

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "driver.hpp"
#include "weir/spi/device_state.hpp"

namespace weir::vulkan {

class Logical;

/// How every buffer is made, so that one memory type fits all of a kind and sizes agree between processes.
inline constexpr VkBufferUsageFlags plain_usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
                                                  VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                                                  VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT;

/// Segments are rounded up to this: the largest nonCoherentAtomSize that the specification allows.
inline constexpr std::size_t granularity = 256;
/// Memory that others can open is rounded up to this, the page of NVIDIA's driver: then a descriptor that claims more
/// than was shared is refused there, too.
inline constexpr std::size_t shared_granularity = 64 * 1024;

class PhysicalDevice final : public spi::DeviceState {
 public:
  /// Why weir cannot use it; empty when it can. Needs nothing but the instance.
  static std::string unsuitable(const Instance& instance, VkPhysicalDevice handle);

  /// What an application enabled on its VkDevice.
  struct Enabled {
    std::uint32_t family, queue_count;
    bool device_address, memory_fd;
  };

  /// Reads its properties; makes no VkDevice. Must be suitable. `enabled`: of an adopted device.
  PhysicalDevice(const Instance& instance, VkPhysicalDevice handle, int number, const Enabled* enabled = nullptr);
  ~PhysicalDevice() override;

  /// Its VkDevice, made on first use. Throws when that fails (and tries again next time), when the device was
  /// released, and in a forked child.
  Logical& logical();
  /// Take over an adopted VkDevice, at construction.
  void adopt(std::unique_ptr<Logical> logical) noexcept;
  /// Nothing can be made on it from now on. For adopted devices.
  void close() noexcept { closed_.store(true, std::memory_order_release); }

  /// The function that a feature of this device needs and `functions` lack; null when there is none.
  [[nodiscard]] const char* missing_in(const DeviceTable& functions) const noexcept;
  /// The best memory type for `kind` among the `allowed` bits.
  [[nodiscard]] std::optional<std::uint32_t> memory_type(MemoryKind kind, std::uint32_t allowed) const noexcept;
  [[nodiscard]] const VkMemoryType& type(std::uint32_t index) const noexcept { return memory_.memoryTypes[index]; }
  [[nodiscard]] VkDeviceSize heap_size(std::uint32_t type_index) const noexcept {
    return memory_.memoryHeaps[type(type_index).heapIndex].size;
  }
  /// Bytes of that type's heap that this process can still use, as far as the driver says; 0 when it does not.
  [[nodiscard]] std::size_t heap_free(std::uint32_t type_index) const noexcept;
  [[nodiscard]] VkBufferUsageFlags usage() const noexcept {
    return plain_usage | (device_address ? VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT : 0);
  }

  const Instance& instance;
  const VkPhysicalDevice handle;
  VkPhysicalDeviceType device_type = VK_PHYSICAL_DEVICE_TYPE_OTHER;
  bool device_address = false;  ///< buffers have one
  bool memory_fd = false;       ///< VK_KHR_external_memory_fd is there (adopted: enabled)
  bool memory_budget = false;
  std::uint32_t family = 0;  ///< of all queues weir uses
  std::uint32_t queue_count = 0;
  VkDeviceSize max_buffer_size = ~VkDeviceSize{0};
  std::uint32_t max_allocations = 0;

 private:
  void read_properties();
  void read_features(const Enabled* enabled);
  void read_kinds();
  void add_kind(MemoryKind kind, bool exportable);

  VkPhysicalDeviceMemoryProperties memory_{};
  std::mutex mutex_;
  std::unique_ptr<Logical> owned_;
  std::atomic<Logical*> logical_{nullptr};
  std::atomic<bool> closed_{false};
};

}  // namespace weir::vulkan
