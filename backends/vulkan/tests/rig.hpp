// SPDX-License-Identifier: Apache-2.0
#pragma once
// Raw Vulkan calls through the judge, with nothing of weir's between and no validation: rules are broken here on
// purpose.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "vulkan/driver.hpp"

namespace weir::vulkan::test {

class Rig {
 public:
  /// A device with `queues` queues of one family. Null with a reason when there is no judge, or no device for it.
  static std::unique_ptr<Rig> create(std::string& reason, std::uint32_t queues = 3);
  /// Waits until all is over, and destroys everything.
  ~Rig();
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  enum class Sort { local, mapped, external };
  struct Memory {
    VkBuffer buffer = VK_NULL_HANDLE;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    std::byte* host = nullptr;
  };
  [[nodiscard]] Memory memory(Sort sort = Sort::local, int import_fd = -1);
  [[nodiscard]] VkBuffer buffer_in(VkDeviceMemory memory, VkDeviceSize offset, VkDeviceSize bytes,
                                   bool external = false);
  [[nodiscard]] int export_fd(const Memory& memory) const;
  [[nodiscard]] VkSemaphore timeline();
  void destroy(VkBuffer buffer);
  void destroy(VkDeviceMemory memory);
  void destroy(VkSemaphore semaphore);
  void destroy(VkCommandPool pool);

  /// Wait until it has that value; or ask how far it is.
  void wait(VkSemaphore semaphore, std::uint64_t value) const;
  [[nodiscard]] std::uint64_t value(VkSemaphore semaphore) const;

  static constexpr VkDeviceSize bytes = 4096;

  VkDevice device = VK_NULL_HANDLE;
  DeviceTable fn;
  std::vector<VkQueue> queues;

 private:
  Rig() = default;
  [[nodiscard]] std::uint32_t type_with(VkMemoryPropertyFlags wanted) const;
  InstanceTable instance_fn_;
  VkInstance instance_ = VK_NULL_HANDLE;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  std::vector<VkBuffer> buffers_;
  std::vector<VkDeviceMemory> memories_;
  std::vector<VkSemaphore> semaphores_;

 public:
  std::vector<VkCommandPool> pools;  ///< of batches
};

/// One command buffer, recorded by chained calls, and what its batch waits for and signals.
class RigBatch {
 public:
  static constexpr VkPipelineStageFlags all = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
  static constexpr VkPipelineStageFlags transfer = VK_PIPELINE_STAGE_TRANSFER_BIT;
  static constexpr VkAccessFlags write = VK_ACCESS_TRANSFER_WRITE_BIT, read = VK_ACCESS_TRANSFER_READ_BIT;

  explicit RigBatch(Rig& rig);

  RigBatch& fill(VkBuffer buffer, std::uint32_t word, VkDeviceSize offset = 0, VkDeviceSize size = Rig::bytes);
  RigBatch& copy(VkBuffer from, VkBuffer to, VkDeviceSize source = 0, VkDeviceSize target = 0,
                 VkDeviceSize size = Rig::bytes);
  RigBatch& barrier(VkPipelineStageFlags from = transfer, VkAccessFlags made = write,
                    VkPipelineStageFlags to = transfer, VkAccessFlags shown = read | write);
  RigBatch& execution(VkPipelineStageFlags from, VkPipelineStageFlags to);
  RigBatch& barrier_for(VkBuffer buffer, VkAccessFlags made, VkAccessFlags shown);
  RigBatch& acquire(VkBuffer buffer, VkAccessFlags shown = read | write, std::uint32_t family = 0);
  RigBatch& release(VkBuffer buffer, VkAccessFlags made = write);
  RigBatch& to_host(VkAccessFlags shown = VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT);
  RigBatch& wait(VkSemaphore semaphore, std::uint64_t value, VkPipelineStageFlags stages = all);
  RigBatch& signal(VkSemaphore semaphore, std::uint64_t value);
  RigBatch& submit(std::size_t queue = 0);
  /// Submit it once more as it is.
  RigBatch& again(std::size_t queue = 0);

  VkCommandPool pool = VK_NULL_HANDLE;
  VkCommandBuffer commands = VK_NULL_HANDLE;

 private:
  void change(VkBuffer buffer, VkAccessFlags made, VkAccessFlags shown, std::uint32_t from, std::uint32_t to);

  Rig& rig_;
  std::vector<VkSemaphore> waits_, signals_;
  std::vector<std::uint64_t> wait_values_, signal_values_;
  std::vector<VkPipelineStageFlags> stages_;
};

}  // namespace weir::vulkan::test
