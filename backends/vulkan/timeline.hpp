// SPDX-License-Identifier: Apache-2.0
#pragma once
// A timeline semaphore with its lifetime. Streams own one; every submitted batch that waits on one keeps it alive.
// Semaphores are used again, not destroyed: Mesa's submit thread (22.3) still touches those that a batch waited on for
// a moment after the batch is complete. So a timeline's values begin at `base`, where the one before left off.

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>

#include "driver.hpp"
#include "weir/stream.hpp"

namespace weir::vulkan {

class Logical;

class Timeline {
 public:
  /// One at value 0. Throws.
  explicit Timeline(Logical& logical);
  /// One that an application owns and keeps.
  Timeline(Logical& logical, VkSemaphore semaphore) : logical_(logical), semaphore_(semaphore) {}
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  [[nodiscard]] VkSemaphore semaphore() const noexcept { return semaphore_; }
  /// What the semaphore itself counts at `value`.
  [[nodiscard]] std::uint64_t raw(std::uint64_t value) const noexcept { return base_ + value; }
  /// Say that a batch which signals `value` is submitted / is known to be complete.
  void signalled(std::uint64_t value);
  void completed(std::uint64_t value) noexcept;
  /// The first value that a submitted batch signals, from `value` on: what to wait for. The same to the driver, but
  /// the validation layer (1.3.239) stalls on values that nobody signals.
  [[nodiscard]] std::uint64_t signal_for(std::uint64_t value) const noexcept;
  /// The value it has reached. Throws when the device is lost.
  [[nodiscard]] std::uint64_t value() const;
  /// As above; a lost device has reached everything, since nothing will use memory any more.
  [[nodiscard]] bool passed(std::uint64_t value) const noexcept;
  /// Block until `value`; negative timeout: no limit. Throws when the device is lost.
  WaitStatus wait(std::uint64_t value, std::chrono::nanoseconds timeout) const;

 private:
  Logical& logical_;
  VkSemaphore semaphore_ = VK_NULL_HANDLE;
  std::uint64_t base_ = 0;
  mutable std::mutex mutex_;
  std::deque<std::uint64_t> signals_;  // submitted, not known to be complete
  std::uint64_t completed_ = 0;        // the last one that is
  bool owned_ = false;
};

}  // namespace weir::vulkan
