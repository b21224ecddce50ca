// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an application records for a stream: commands of its own, and a compute shader.

#include <cstdint>

#include "vulkan/driver.hpp"
#include "weir/vulkan.hpp"

namespace weir::vulkan::test {

/// A command buffer with a pool of its own, recorded by chained calls. It has no barriers but those that are asked for.
/// Destroy it when what it was submitted for is over.
class Commands {
 public:
  /// For the device and the family of `stream`, which is not held back.
  explicit Commands(const Stream& stream);
  ~Commands();
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  Commands& fill(const Buffer& buffer, std::uint32_t word);
  Commands& copy(const Buffer& from, const Buffer& to);
  /// Between commands here that copy and fill.
  Commands& barrier();
  /// Acquire memory that others share, or release it again.
  Commands& acquire(const Buffer& buffer);
  Commands& release(const Buffer& buffer);
  /// End the recording, if it goes on, and return the handle.
  VkCommandBuffer_T* done();

  /// Submit the commands: after a point of a stream, and before `value` of `semaphore`.
  void submit(VkQueue queue, const NativeStream& after, VkSemaphore semaphore, std::uint64_t value);
  [[nodiscard]] VkSemaphore make_timeline() const;
  void destroy(VkSemaphore semaphore) const;

  template <class F>
  F function(const char* name) const {
    return reinterpret_cast<F>(get_(device_, name));
  }
  [[nodiscard]] VkDevice device() const { return device_; }
  [[nodiscard]] VkCommandBuffer handle() const { return commands_; }

 private:
  void change_owner(const Buffer& buffer, bool acquire);

  Device of_;
  VkDevice device_;
  std::uint32_t family_;
  PFN_vkGetDeviceProcAddr get_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  bool ended_ = false;
};

/// The compute shader of examples/09_compute.cpp: target[i] = source[i]² + 1, 64 words a group.
class Squares {
 public:
  Squares(Commands& commands, const Buffer& source, const Buffer& target);
  ~Squares();
  Squares(const Squares&) = delete;
  Squares& operator=(const Squares&) = delete;

  void dispatch(std::uint32_t groups);
  /// Take the number of groups from the beginning of `groups`.
  void dispatch_indirect(const Buffer& groups);

 private:
  Commands& commands_;
  VkShaderModule module_ = VK_NULL_HANDLE;
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipeline pipeline_ = VK_NULL_HANDLE;
  VkDescriptorPool pool_ = VK_NULL_HANDLE;
};

}  // namespace weir::vulkan::test
