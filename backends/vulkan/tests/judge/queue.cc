// SPDX-License-Identifier: Apache-2.0
// A device that begins as late as it may: batches are kept until the host waits for them, or has asked often enough,
// and then only those run that the awaited one needs. Several queues may stand for one of the driver's, so what nothing
// orders runs in an order that nobody expects.
#include <algorithm>
#include <cstdlib>
#include <span>
#include <thread>

#include "world.hpp"

namespace judge {
namespace {

constexpr std::size_t most_held = 32;  // of a queue
constexpr unsigned patience = 2;       // of the host, which asks whether something is over

template <class Struct>
const Struct* chained(const void* chain, VkStructureType type) {
  for (auto* at = static_cast<const VkBaseInStructure*>(chain); at; at = at->pNext) {
    if (at->sType == type) return reinterpret_cast<const Struct*>(at);
  }
  return nullptr;
}

Held copy_of(const VkSubmitInfo& info) {
  const auto* values =
      chained<VkTimelineSemaphoreSubmitInfo>(info.pNext, VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
  const auto list = [](const auto* items, std::uint32_t count) { return std::vector(items, items + count); };
  const auto numbers = [](const std::uint64_t* items, std::uint32_t given, std::uint32_t count) {
    std::vector<std::uint64_t> all(items, items + (items ? given : 0));
    all.resize(count);
    return all;
  };
  Held held;
  held.waits = list(info.pWaitSemaphores, info.waitSemaphoreCount);
  held.stages = list(info.pWaitDstStageMask, info.waitSemaphoreCount);
  held.commands = list(info.pCommandBuffers, info.commandBufferCount);
  held.signals = list(info.pSignalSemaphores, info.signalSemaphoreCount);
  held.wait_values = numbers(values ? values->pWaitSemaphoreValues : nullptr,
                             values ? values->waitSemaphoreValueCount : 0, info.waitSemaphoreCount);
  held.signal_values = numbers(values ? values->pSignalSemaphoreValues : nullptr,
                               values ? values->signalSemaphoreValueCount : 0, info.signalSemaphoreCount);
  return held;
}

void hand_over(const Queue& queue, const Held& held) {
  VkTimelineSemaphoreSubmitInfo values{};
  values.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
  values.waitSemaphoreValueCount = static_cast<std::uint32_t>(held.wait_values.size());
  values.pWaitSemaphoreValues = held.wait_values.data();
  values.signalSemaphoreValueCount = static_cast<std::uint32_t>(held.signal_values.size());
  values.pSignalSemaphoreValues = held.signal_values.data();
  VkSubmitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.pNext = &values;
  info.waitSemaphoreCount = static_cast<std::uint32_t>(held.waits.size());
  info.pWaitSemaphores = held.waits.data();
  info.pWaitDstStageMask = held.stages.data();
  info.commandBufferCount = static_cast<std::uint32_t>(held.commands.size());
  info.pCommandBuffers = held.commands.data();
  info.signalSemaphoreCount = static_cast<std::uint32_t>(held.signals.size());
  info.pSignalSemaphores = held.signals.data();
  if (const VkResult result = next().vkQueueSubmit(queue.real, 1, &info, VK_NULL_HANDLE); result != VK_SUCCESS)
    violation("vkQueueSubmit", "the driver refused the batch with " + std::to_string(static_cast<int>(result)));
  for (std::size_t i = 0; i < held.signals.size(); ++i) {
    if (auto* semaphore = find(world().semaphores, held.signals[i]))
      semaphore->handed = std::max(semaphore->handed, held.signal_values[i]);
  }
}

/// The batches up to and with that one, and before each what it waits for.
void let_go_up_to(Queue& queue, std::size_t last) {
  for (std::size_t i = 0; i <= last && !queue.held.empty(); ++i) {
    const Held held = std::move(queue.held.front());
    queue.held.pop_front();
    for (std::size_t k = 0; k < held.waits.size(); ++k) let_go(held.waits[k], held.wait_values[k]);
    hand_over(queue, held);
  }
}

bool signals(const Held& held, VkSemaphore semaphore, std::uint64_t value) {
  for (std::size_t i = 0; i < held.signals.size(); ++i) {
    if (held.signals[i] == semaphore && held.signal_values[i] >= value) return true;
  }
  return false;
}

/// The host has asked how far a semaphore is. A device need not hurry.
void asked(VkSemaphore handle, Semaphore& semaphore) {
  if (++semaphore.polls < patience) return;
  semaphore.polls = 0;
  let_go(handle, semaphore.handed + 1);
}

std::list<Waiter>::iterator begin_to_wait(VkSemaphore semaphore, std::uint64_t value) {
  let_go(semaphore, value);
  world().waiters.push_front({semaphore, value});
  return world().waiters.begin();
}

/// The values that are known to be reached once `value` is: those of the first signal from it on.
void seen_by_wait(VkSemaphore handle, std::uint64_t value) {
  auto* semaphore = find(world().semaphores, handle);
  if (!semaphore || value <= semaphore->seen) return;
  for (const Signal& signal : semaphore->signals) {
    if (signal.value >= value) return seen(*semaphore, signal.value);
  }
}

/// Held around a call with a queue, which only one thread may make at a time. Others get a moment to be found.
class Turn {
 public:
  Turn(Queue* queue, const char* call, Lock& lock) : queue_(queue) {
    if (!queue) return;
    if (queue->busy) violation(call, "another thread is using queue " + std::to_string(queue->place));
    queue->busy = true;
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
  ~Turn() {
    if (queue_) queue_->busy = false;
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Queue* queue_;
};

VkResult idle(Queue& queue) {
  let_all_go(queue);
  const VkResult result = next().vkQueueWaitIdle(queue.real);
  if (result == VK_SUCCESS) seen_idle(queue);
  return result;
}

}  // namespace

void let_go(VkSemaphore handle, std::uint64_t value) {
  if (const auto* semaphore = find(world().semaphores, handle); !semaphore || semaphore->handed >= value) return;
  for (auto& [name, queue] : world().queues) {
    const auto found = std::find_if(queue->held.begin(), queue->held.end(),
                                    [&](const Held& held) { return signals(held, handle, value); });
    if (found != queue->held.end()) return let_go_up_to(*queue, static_cast<std::size_t>(found - queue->held.begin()));
  }
}

void let_all_go(Queue& queue) {
  if (!queue.held.empty()) let_go_up_to(queue, queue.held.size() - 1);
}

void come_to_rest(Device& device) {
  for (auto& [handle, queue] : world().queues) {
    if (queue->device == &device) let_all_go(*queue);
  }
  (void)next().vkDeviceWaitIdle(device.handle);
  for (auto& [handle, queue] : world().queues) {
    if (queue->device == &device) seen_idle(*queue);  // told once
  }
}

namespace calls {

VkResult vkQueueSubmit(VkQueue handle, std::uint32_t count, const VkSubmitInfo* infos, VkFence fence) {
  Lock lock(lock_of_all());
  Queue* queue = find(world().queues, handle);
  const Turn turn(queue, "vkQueueSubmit", lock);
  if (!queue) return next().vkQueueSubmit(handle, count, infos, fence);
  for (const auto& info : std::span(infos, count)) {
    queue->held.push_back(copy_of(info));
    order(*queue, queue->held.back());
  }
  if (settings().eager || fence != VK_NULL_HANDLE) let_all_go(*queue);
  for (const Waiter& waiter : world().waiters) let_go(waiter.semaphore, waiter.value);
  if (queue->held.size() > most_held) let_go_up_to(*queue, queue->held.size() - most_held - 1);
  return fence == VK_NULL_HANDLE ? VK_SUCCESS : next().vkQueueSubmit(queue->real, 0, nullptr, fence);
}

VkResult vkQueueWaitIdle(VkQueue handle) {
  Lock lock(lock_of_all());
  Queue* queue = find(world().queues, handle);
  const Turn turn(queue, "vkQueueWaitIdle", lock);
  return queue ? idle(*queue) : next().vkQueueWaitIdle(handle);
}

VkResult vkDeviceWaitIdle(VkDevice handle) {
  const Lock lock(lock_of_all());
  const Device* device = find(world().devices, handle);
  if (!device) return next().vkDeviceWaitIdle(handle);
  VkResult result = VK_SUCCESS;
  for (auto& [name, queue] : world().queues) {
    if (queue->device == device && result == VK_SUCCESS) result = idle(*queue);
  }
  return result;
}

VkResult vkCreateSemaphore(VkDevice device, const VkSemaphoreCreateInfo* info, const VkAllocationCallbacks* allocator,
                           VkSemaphore* made) {
  const Lock lock(lock_of_all());
  const VkResult result = next().vkCreateSemaphore(device, info, allocator, made);
  if (result != VK_SUCCESS || !find(world().devices, device)) return result;
  const auto* type = chained<VkSemaphoreTypeCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);
  Semaphore& semaphore = world().semaphores[*made] = {};
  semaphore.number = ++world().numbers;
  semaphore.timeline = type && type->semaphoreType == VK_SEMAPHORE_TYPE_TIMELINE;
  semaphore.seen = semaphore.last = semaphore.handed = type ? type->initialValue : 0;
  return VK_SUCCESS;
}

void vkDestroySemaphore(VkDevice device, VkSemaphore handle, const VkAllocationCallbacks* allocator) {
  const Lock lock(lock_of_all());
  if (const auto* semaphore = find(world().semaphores, handle)) {
    if (in_use(semaphore->uses)) {
      violation("vkDestroySemaphore", "semaphore " + std::to_string(semaphore->number) +
                                          " is destroyed before the batches that name it are known to be over");
      come_to_rest(*world().devices.at(device));
    }
    world().semaphores.erase(handle);
    return world().devices.at(device)->ended.push_back(handle);
  }
  next().vkDestroySemaphore(device, handle, allocator);
}

VkResult vkGetSemaphoreCounterValue(VkDevice device, VkSemaphore handle, std::uint64_t* value) {
  const Lock lock(lock_of_all());
  const VkResult result = next().vkGetSemaphoreCounterValue(device, handle, value);
  auto* semaphore = find(world().semaphores, handle);
  if (!semaphore || result != VK_SUCCESS) return result;
  seen(*semaphore, *value);
  if (*value < semaphore->last) asked(handle, *semaphore);
  return result;
}

VkResult vkWaitSemaphores(VkDevice device, const VkSemaphoreWaitInfo* info, std::uint64_t timeout) {
  std::vector<std::list<Waiter>::iterator> waits;
  {
    const Lock lock(lock_of_all());
    for (std::uint32_t i = 0; i < info->semaphoreCount && timeout != 0; ++i)
      waits.push_back(begin_to_wait(info->pSemaphores[i], info->pValues[i]));
  }
  const VkResult result = next().vkWaitSemaphores(device, info, timeout);
  const Lock lock(lock_of_all());
  for (const auto& waiter : waits) world().waiters.erase(waiter);
  const bool all = info->semaphoreCount == 1 || (info->flags & VK_SEMAPHORE_WAIT_ANY_BIT) == 0;
  for (std::uint32_t i = 0; i < info->semaphoreCount; ++i) {
    if (result == VK_SUCCESS && all) seen_by_wait(info->pSemaphores[i], info->pValues[i]);
    auto* semaphore = find(world().semaphores, info->pSemaphores[i]);
    if (result == VK_TIMEOUT && semaphore) asked(info->pSemaphores[i], *semaphore);
  }
  return result;
}

VkResult vkSignalSemaphore(VkDevice device, const VkSemaphoreSignalInfo* info) {
  const Lock lock(lock_of_all());
  if (auto* semaphore = find(world().semaphores, info->semaphore)) {
    if (info->value <= semaphore->last)
      violation("vkSignalSemaphore", "it signals " + std::to_string(info->value) + " of semaphore " +
                                         std::to_string(semaphore->number) + ", whose last signal is " +
                                         std::to_string(semaphore->last));
    const auto& host = world().host;
    semaphore->signals.push_back({info->value, host.over, host.read, host.written});
    semaphore->last = semaphore->handed = info->value;
  }
  return next().vkSignalSemaphore(device, info);
}

}  // namespace calls
}  // namespace judge
