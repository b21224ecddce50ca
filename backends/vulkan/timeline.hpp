// SPDX-License-Identifier: Apache-2.0
#pragma once
// A timeline semaphore with its lifetime. Streams own one; every submitted batch that waits on one keeps it alive.

#include <chrono>
#include <cstdint>

#include "driver.hpp"
#include "weir/stream.hpp"

namespace weir::vulkan {

class Logical;

class Timeline {
 public:
  /// A new one at value 0. Throws.
  explicit Timeline(Logical& logical);
  /// One that an application owns and keeps.
  Timeline(Logical& logical, VkSemaphore semaphore) noexcept : logical_(logical), semaphore_(semaphore) {}
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  [[nodiscard]] VkSemaphore semaphore() const noexcept { return semaphore_; }
  /// The value it has reached. Throws when the device is lost.
  [[nodiscard]] std::uint64_t value() const;
  /// As above; a lost device has reached everything, since nothing will use memory any more.
  [[nodiscard]] bool passed(std::uint64_t value) const noexcept;
  /// Block until `value`; negative timeout: no limit. Throws when the device is lost.
  WaitStatus wait(std::uint64_t value, std::chrono::nanoseconds timeout) const;

 private:
  Logical& logical_;
  VkSemaphore semaphore_ = VK_NULL_HANDLE;
  bool owned_ = false;
};

}  // namespace weir::vulkan
