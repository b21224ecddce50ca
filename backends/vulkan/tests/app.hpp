// SPDX-License-Identifier: Apache-2.0
#pragma once
// An application with its own VkDevice, validated, whose driver calls are counted and can be made to fail. And the base
// of the suites on weir's own device.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bytes.hpp"
#include "vulkan/driver.hpp"
#include "weir/vulkan.hpp"

namespace weir::vulkan::test {

/// Whether this run must not skip Vulkan.
inline bool required() {
  const char* list = std::getenv("WEIR_REQUIRE");
  return list && std::string_view(list).find("vulkan") != std::string_view::npos;
}

/// Calls that weir made through the application's table. Any thread.
class Calls {
 public:
  /// How often since `clear`.
  int operator[](const std::string& name);
  void clear();
  /// How often something was made or destroyed, since `reset`.
  int effective(const std::string& name);
  /// Let the n-th call from now on (1 = the next) return `result`.
  void fail(const std::string& name, VkResult result, int nth = 1);
  void fail_nothing();
  void reset();
  /// How many semaphores the last submit waits for.
  [[nodiscard]] int waits() const { return waits_; }

  std::optional<VkResult> begin(const char* name);  ///< for the table
  void took_effect(const char* name);
  void submits(const VkSubmitInfo& what) { waits_ = static_cast<int>(what.waitSemaphoreCount); }

 private:
  std::atomic<int> waits_{0};
  std::mutex mutex_;
  std::map<std::string, int> count_, effective_;
  std::map<std::string, std::pair<int, VkResult>> planned_;
};
Calls& calls();

/// One per process at a time.
class App {
 public:
  /// Null with a reason when the machine has no Vulkan.
  static App* create(std::string& reason);
  ~App();

  [[nodiscard]] AdoptOptions options() const;
  [[nodiscard]] VkBuffer make_buffer(std::size_t bytes, VkDeviceMemory& memory);
  /// One more over memory that there is, from `offset` of it on.
  [[nodiscard]] VkBuffer make_buffer_in(VkDeviceMemory memory, std::size_t offset, std::size_t bytes);
  void destroy_buffer(VkBuffer buffer, VkDeviceMemory memory);
  [[nodiscard]] VkSemaphore make_timeline();
  void destroy(VkSemaphore semaphore);
  [[nodiscard]] std::uint64_t value(VkSemaphore semaphore) const;
  /// Submit: wait for `wait` at its value, run `commands` if there are any, then signal `signal`.
  void submit(VkSemaphore wait, std::uint64_t wait_value, VkSemaphore signal, std::uint64_t signal_value,
              VkCommandBuffer commands = VK_NULL_HANDLE);
  void wait_idle();
  [[nodiscard]] static int take_messages();  ///< of validation, since the last call
  [[nodiscard]] static std::string last_message();
  [[nodiscard]] bool validated() const { return validated_; }

  VkInstance instance = VK_NULL_HANDLE;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  VkDevice device = VK_NULL_HANDLE;
  VkQueue queue = VK_NULL_HANDLE;
  int locks = 0, unlocks = 0;  ///< of the queue, by weir

 private:
  App() = default;
  bool make_instance(std::string& reason);
  bool make_device(std::string& reason);
  [[nodiscard]] VkBuffer make_unbound(std::size_t bytes);
  template <class F>
  F get(const char* name) const;

  bool validated_ = false;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
};

/// Suite on weir's own first Vulkan device.
class OnVulkan : public testing::Test {
 protected:
  void SetUp() override;
  [[nodiscard]] Device device() const { return vulkan::device(0); }
};

/// Suite on an application's device, which weir adopts; at the end it is given back and nothing of weir's is left.
class OnApp : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  [[nodiscard]] const Device& device() const { return *adopted_; }
  /// Give the device back before TearDown.
  void give_back();
  /// Return a buffer that has these bytes.
  static Buffer filled(const ResourcePtr& resource, const weir::test::Bytes& bytes, const Stream& stream) {
    Buffer buffer = resource->allocate(bytes.size(), stream);
    weir::test::write(buffer, bytes, stream);
    stream.synchronize();
    return buffer;
  }

  std::unique_ptr<App> app;

 private:
  std::optional<Device> adopted_;
};

}  // namespace weir::vulkan::test
