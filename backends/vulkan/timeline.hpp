// SPDX-License-Identifier: Apache-2.0
#pragma once
// A timeline semaphore with its lifetime. Each stream owns one, and every submitted batch that waits on one keeps it
// alive. Semaphores are reused and not destroyed: for a moment after a batch is complete, Mesa's submit thread (22.3)
// still touches those on which the batch waited. So a timeline counts from `base_`, where the previous owner of its
// semaphore left off.

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
  /// Make a timeline at value 0. Throws.
  explicit Timeline(Logical& logical);
  /// Wrap a semaphore that an application owns and keeps.
  Timeline(Logical& logical, VkSemaphore semaphore) : logical_(logical), semaphore_(semaphore) {}
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  [[nodiscard]] VkSemaphore semaphore() const noexcept { return semaphore_; }
  /// Return what the semaphore itself counts at `value`.
  [[nodiscard]] std::uint64_t raw(std::uint64_t value) const noexcept { return base_ + value; }
  /// Say that a batch that signals `value` is submitted (`signalled`), or that it is known to be complete
  /// (`completed`).
  void signalled(std::uint64_t value);
  /// Take back the last call of `signalled`, because that batch was not submitted after all.
  void not_signalled() noexcept;
  void completed(std::uint64_t value) noexcept;
  /// Return the first value, from `value` on, that a submitted batch signals. Wait for this one: it makes no difference
  /// to the driver, but the validation layer (1.3.239) stalls on values that nobody signals.
  [[nodiscard]] std::uint64_t signal_for(std::uint64_t value) const noexcept;
  /// Return the value that the timeline has reached. Throws when the device is lost.
  [[nodiscard]] std::uint64_t value() const;
  /// Return whether the timeline has reached `value`. A lost device has reached everything, because nothing will use
  /// memory any more.
  [[nodiscard]] bool passed(std::uint64_t value) const noexcept;
  /// Block until the timeline has reached `value`. A negative timeout means no limit. Throws when the device is lost.
  WaitStatus wait(std::uint64_t value, std::chrono::nanoseconds timeout) const;

 private:
  Logical& logical_;
  VkSemaphore semaphore_ = VK_NULL_HANDLE;
  std::uint64_t base_ = 0;
  mutable std::mutex mutex_;
  std::deque<std::uint64_t> signals_;  // submitted, not known to be complete
  std::uint64_t completed_ = 0;        // the last value that is known to be complete
  bool owned_ = false;
};

}  // namespace weir::vulkan
