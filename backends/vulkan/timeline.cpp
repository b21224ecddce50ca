// SPDX-License-Identifier: Apache-2.0
#include "timeline.hpp"

#include <algorithm>
#include <limits>

#include "errors.hpp"
#include "logical.hpp"

namespace weir::vulkan {
namespace {

// The value that some drivers report for every semaphore once the device is lost.
constexpr std::uint64_t lost_value = std::numeric_limits<std::uint64_t>::max();

}  // namespace

// The semaphore comes last, because no other member may fail once there is one.
Timeline::Timeline(Logical& logical) : logical_(logical), owned_(true) {
  semaphore_ = logical_.take_semaphore();
  try {
    base_ = value();  // all its signals are complete
  } catch (...) {
    logical_.give_semaphore(semaphore_);
    throw;
  }
}

Timeline::~Timeline() {
  if (owned_) logical_.give_semaphore(semaphore_);
}

void Timeline::signalled(std::uint64_t value) {
  const std::scoped_lock lock(mutex_);
  signals_.push_back(value);
}

void Timeline::not_signalled() noexcept {
  const std::scoped_lock lock(mutex_);
  signals_.pop_back();
}

void Timeline::completed(std::uint64_t value) noexcept {
  const std::scoped_lock lock(mutex_);
  while (!signals_.empty() && signals_.front() <= value) signals_.pop_front();
  completed_ = value;
}

std::uint64_t Timeline::signal_for(std::uint64_t value) const noexcept {
  const std::scoped_lock lock(mutex_);
  if (value <= completed_) return completed_;
  const auto found = std::lower_bound(signals_.begin(), signals_.end(), value);
  return found == signals_.end() ? value : *found;
}

std::uint64_t Timeline::value() const {
  const DriverCall call(Doing::poll);
  if (!call) return lost_value - 1;
  std::uint64_t reached = 0;
  VkResult result = logical_.fn.vkGetSemaphoreCounterValue(logical_.handle, semaphore_, &reached);
  if (reached == lost_value) result = VK_ERROR_DEVICE_LOST;
  check(result, "vkGetSemaphoreCounterValue", logical_.name());
  return reached - base_;
}

bool Timeline::passed(std::uint64_t wanted) const noexcept {
  const DriverCall call(Doing::poll);
  if (!call) return true;
  std::uint64_t reached = 0;
  const VkResult result = logical_.fn.vkGetSemaphoreCounterValue(logical_.handle, semaphore_, &reached);
  return result == VK_ERROR_DEVICE_LOST || (result == VK_SUCCESS && reached >= raw(wanted));
}

WaitStatus Timeline::wait(std::uint64_t wanted, std::chrono::nanoseconds timeout) const {
  const DriverCall call(Doing::wait);
  if (!call) return WaitStatus::ready;
  const std::uint64_t target = raw(owned_ ? signal_for(wanted) : wanted);
  VkSemaphoreWaitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
  info.semaphoreCount = 1;
  info.pSemaphores = &semaphore_;
  info.pValues = &target;
  const auto limit =
      timeout.count() < 0 ? std::numeric_limits<std::uint64_t>::max() : static_cast<std::uint64_t>(timeout.count());
  VkResult result;
  do {  // a driver may give up even without a limit
    result = logical_.fn.vkWaitSemaphores(logical_.handle, &info, limit);
  } while (result == VK_TIMEOUT && timeout.count() < 0);
  check(result, "vkWaitSemaphores", logical_.name());
  return result == VK_TIMEOUT ? WaitStatus::timeout : WaitStatus::ready;
}

}  // namespace weir::vulkan
