// SPDX-License-Identifier: Apache-2.0
#pragma once
// A physical device: its properties, and which memory types serve which kinds. Its VkDevice is in logical.hpp.

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "driver.hpp"
#include "weir/spi/backend.hpp"

namespace weir::vulkan {

class Logical;

/// The usage with which every buffer is made, so that one memory type fits all buffers of a kind and sizes agree
/// between processes. A resource may add to it (vulkan::BufferUsage). The default alignment serves every usage: the
/// specification allows no minTexelBufferOffsetAlignment, minUniformBufferOffsetAlignment and
/// minStorageBufferOffsetAlignment above 256.
inline constexpr VkBufferUsageFlags plain_usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
                                                  VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                                                  VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT;

/// Segments are rounded up to this. It is the largest nonCoherentAtomSize that the specification allows.
inline constexpr std::size_t granularity = 256;
/// Memory that others can open is rounded up to this, the page size of NVIDIA's driver. Then that driver, too, refuses
/// a descriptor that claims more than was shared.
inline constexpr std::size_t shared_granularity = 64 * 1024;

class PhysicalDevice final : public spi::DeviceState {
 public:
  /// Return why weir cannot use the device; empty when it can. Needs nothing but the instance.
  static std::string unsuitable(const Instance& instance, VkPhysicalDevice handle);

  /// What an application enabled on its VkDevice.
  struct Enabled {
    std::uint32_t family, queue_count;
    bool device_address, memory_fd;
  };

  /// Read the properties of a device, which must be suitable; make no VkDevice. `enabled` is for adopted devices.
  PhysicalDevice(const Instance& instance, VkPhysicalDevice handle, int number, const Enabled* enabled = nullptr);
  ~PhysicalDevice() override;

  /// Return the VkDevice, made on first use. Throws when it cannot be made (the next call tries again), when the device
  /// was released, and in a forked child.
  Logical& logical();
  /// Take over an adopted VkDevice, as a part of construction.
  void adopt(std::unique_ptr<Logical> logical) noexcept;
  /// Somebody makes a stream or a segment of the device while this lives. Throws what logical() throws.
  class Making {
   public:
    explicit Making(PhysicalDevice& device);
    ~Making();
    Making(const Making&) = delete;
    Making& operator=(const Making&) = delete;
    [[nodiscard]] Logical& logical() const noexcept { return logical_; }

   private:
    PhysicalDevice& device_;
    Logical& logical_;
  };
  /// From now on, refuse to make anything on the device. For adopted devices. Returns false, and changes nothing, if
  /// something is being made, or if another thread has closed the device, which may still take that back.
  [[nodiscard]] bool close() noexcept;
  /// Take back a close() that returned true.
  void reopen() noexcept { closed_.store(false, std::memory_order_release); }
  [[nodiscard]] bool is_closed() const noexcept { return closed_.load(std::memory_order_acquire); }

  /// Return the name of a function that a feature of this device needs and `functions` lacks; null when there is none.
  [[nodiscard]] const char* missing_in(const DeviceTable& functions) const noexcept;
  /// Return the best memory type for `kind` among the `allowed` bits.
  [[nodiscard]] std::optional<std::uint32_t> memory_type(MemoryKind kind, std::uint32_t allowed) const noexcept;
  [[nodiscard]] const VkMemoryType& type(std::uint32_t index) const noexcept { return memory_.memoryTypes[index]; }
  [[nodiscard]] VkDeviceSize heap_size(std::uint32_t type_index) const noexcept {
    return memory_.memoryHeaps[type(type_index).heapIndex].size;
  }
  /// Return what the driver says of that type's heap (VK_EXT_memory_budget); empty when it says nothing.
  [[nodiscard]] std::optional<spi::DeviceMemory> heap(std::uint32_t type_index) const noexcept;
  [[nodiscard]] VkBufferUsageFlags usage() const noexcept {
    return plain_usage | (device_address ? VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT : 0);
  }
  /// Return whether the driver exports and imports memory of buffers with that usage besides usage().
  [[nodiscard]] bool shares(VkBufferUsageFlags extra_usage) const noexcept;

  const Instance& instance;
  const VkPhysicalDevice handle;
  VkPhysicalDeviceType device_type = VK_PHYSICAL_DEVICE_TYPE_OTHER;
  bool device_address = false;  ///< buffers have a device address
  bool memory_fd = false;       ///< VK_KHR_external_memory_fd is there (on an adopted device: is enabled)
  bool memory_budget = false;
  bool computes = false;     ///< these queues run compute shaders
  std::uint32_t family = 0;  ///< the family of all queues that weir uses
  std::uint32_t queue_count = 0;
  VkDeviceSize max_buffer_size = ~VkDeviceSize{0};
  std::uint32_t max_allocations = 0;

 private:
  void check_open() const;
  void read_properties();
  void read_features(const Enabled* enabled);
  void read_kinds();
  void add_kind(MemoryKind kind, bool exportable);

  VkPhysicalDeviceMemoryProperties memory_{};
  std::mutex mutex_;
  std::unique_ptr<Logical> owned_;
  std::atomic<Logical*> logical_{nullptr};
  std::size_t making_ = 0;  // under the mutex
  std::atomic<bool> closed_{false};
};

}  // namespace weir::vulkan
