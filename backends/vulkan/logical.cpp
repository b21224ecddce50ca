// SPDX-License-Identifier: Apache-2.0
#include "logical.hpp"

#include <map>
#include <new>
#include <utility>

#include "batch.hpp"
#include "device.hpp"
#include "errors.hpp"
#include "names.hpp"
#include "segment.hpp"
#include "weir/error.hpp"

namespace weir::vulkan {
namespace {

// Return the lock of a queue, which may be part of several adoptions. Locks are never removed. If a handle later names
// another queue, the shared lock does no harm.
std::mutex& lock_of(VkQueue queue) {
  struct All {
    std::mutex mutex;
    std::map<VkQueue, std::mutex> of;
  };
  static auto& all = *new All;
  const std::scoped_lock lock(all.mutex);
  return all.of[queue];
}

}  // namespace

Queue::Queue(VkQueue queue, std::function<void()> lock, std::function<void()> unlock)
    : handle(queue), mutex_(lock_of(queue)), lock_(std::move(lock)), unlock_(std::move(unlock)) {}

// The application's lock first: it may need another one, like Python's, which a thread that waits here may hold.
void Queue::lock() {
  if (lock_) lock_();
  mutex_.lock();
}

void Queue::unlock() {
  mutex_.unlock();
  if (unlock_) unlock_();
}

std::unique_ptr<Logical> Logical::create(PhysicalDevice& device) {
  const NeededCall call(Doing::create);
  const std::vector<float> priorities(device.queue_count, 1.0f);
  VkDeviceQueueCreateInfo queues{};
  queues.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queues.queueFamilyIndex = device.family;
  queues.queueCount = device.queue_count;
  queues.pQueuePriorities = priorities.data();
  VkPhysicalDeviceVulkan12Features features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  features.timelineSemaphore = VK_TRUE;
  features.bufferDeviceAddress = device.device_address;
  const char* extension = VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME;
  VkDeviceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.pNext = &features;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queues;
  info.enabledExtensionCount = device.memory_fd ? 1 : 0;
  info.ppEnabledExtensionNames = &extension;
  VkDevice handle = VK_NULL_HANDLE;
  check(device.instance.fn.vkCreateDevice(device.handle, &info, nullptr, &handle), "vkCreateDevice", device.describe());

  DeviceTable fn;
  const char* missing = fn.load(device.instance.fn.vkGetDeviceProcAddr, handle);
  if (!missing) missing = device.missing_in(fn);
  if (missing) {
    if (fn.vkDestroyDevice) fn.vkDestroyDevice(handle, nullptr);
    throw Error(Errc::incompatible, device.describe() + ": its driver has no " + missing);
  }
  watch_process();
  std::unique_ptr<Logical> logical;
  try {
    logical = std::make_unique<Logical>(device, handle, fn, false);
  } catch (...) {  // no memory
    fn.vkDestroyDevice(handle, nullptr);
    throw;
  }
  for (std::uint32_t i = 0; i < device.queue_count; ++i) {
    VkQueue queue = VK_NULL_HANDLE;
    logical->fn.vkGetDeviceQueue(handle, device.family, i, &queue);
    logical->add_queue(std::make_unique<Queue>(queue));
  }
  return logical;
}

Logical::Logical(PhysicalDevice& owner, VkDevice made, const DeviceTable& functions, bool is_adopted)
    : device(owner), handle(made), adopted(is_adopted), fn(functions), name_(owner.describe()) {}

// Runs only for a device that failed halfway: all others live as long as the process.
Logical::~Logical() {
  if (!adopted) fn.vkDestroyDevice(handle, nullptr);
}

Queue& Logical::next_queue() noexcept {
  return *queues_[next_queue_.fetch_add(1, std::memory_order_relaxed) % queues_.size()];
}

void Logical::bury(std::list<Flight> flight) noexcept {
  if (flight.front().timeline->passed(flight.front().value)) return;  // complete, so it is destroyed here
  const std::scoped_lock lock(mutex_);
  graveyard_.splice(graveyard_.end(), flight);
  buried_.store(true, std::memory_order_release);
}

void Logical::collect() noexcept {
  if (!buried_.load(std::memory_order_acquire)) return;
  std::list<Flight> done;  // destroyed after the lock is released, because scratch memory counts itself out
  const std::scoped_lock lock(mutex_);
  for (auto flight = graveyard_.begin(); flight != graveyard_.end();) {
    const auto next = std::next(flight);
    if (flight->timeline->passed(flight->value)) done.splice(done.end(), graveyard_, flight);
    flight = next;
  }
  buried_.store(!graveyard_.empty(), std::memory_order_release);
}

VkSemaphore Logical::take_semaphore() {
  const NeededCall call(Doing::create);
  {
    const std::scoped_lock lock(mutex_);
    if (!semaphores_.empty()) {
      VkSemaphore semaphore = semaphores_.back();
      semaphores_.pop_back();
      return semaphore;
    }
  }
  VkSemaphoreTypeCreateInfo type{};
  type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
  info.pNext = &type;
  VkSemaphore semaphore = VK_NULL_HANDLE;
  check(fn.vkCreateSemaphore(handle, &info, nullptr, &semaphore), "vkCreateSemaphore", name_);
  return semaphore;
}

void Logical::give_semaphore(VkSemaphore semaphore) noexcept {
  const DriverCall call(Doing::destroy);
  if (!call) return;
  const std::scoped_lock lock(mutex_);
  try {
    semaphores_.push_back(semaphore);
  } catch (...) {
    fn.vkDestroySemaphore(handle, semaphore, nullptr);
  }
}

void Logical::keep_spares() noexcept {
  const DriverCall call(Doing::create);
  if (!call) return;
  const std::scoped_lock lock(mutex_);
  if (!spares_.empty()) return;
  try {
    spares_.reserve(device.kinds.size());
  } catch (const std::bad_alloc&) {  // then there are no spares
    return;
  }
  for (const KindInfo& info : device.kinds) {
    VkMemoryAllocateInfo request{};
    request.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    request.allocationSize = 4096;
    request.memoryTypeIndex = device.memory_type(info.kind, ~0u).value_or(0);
    VkDeviceMemory spare = VK_NULL_HANDLE;
    if (!count_one()) return;
    if (fn.vkAllocateMemory(handle, &request, nullptr, &spare) != VK_SUCCESS) {
      uncount_allocation();
      continue;
    }
    spares_.push_back(spare);
    name_spare(*this, spare);
  }
}

bool Logical::free_spares() noexcept {
  const std::scoped_lock lock(mutex_);
  const auto spares = std::exchange(spares_, {});
  for (VkDeviceMemory spare : spares) {
    fn.vkFreeMemory(handle, spare, nullptr);
    uncount_allocation();
  }
  return !spares.empty();
}

bool Logical::count_one() noexcept {
  if (allocations_.fetch_add(1, std::memory_order_relaxed) < device.max_allocations) return true;
  uncount_allocation();
  return false;
}

bool Logical::count_allocation() noexcept { return count_one() || (free_spares() && count_one()); }

void Logical::remember(Memory& memory) {
  const std::scoped_lock lock(names_mutex_);
  by_buffer_[memory.buffer] = &memory;
  by_memory_[memory.memory] = &memory;
}

void Logical::forget(Memory& memory) noexcept {
  const std::scoped_lock lock(names_mutex_);
  by_buffer_.erase(memory.buffer);
  by_memory_.erase(memory.memory);
}

void Logical::with_owner(VkBuffer buffer, VkDeviceMemory memory, const std::function<void(Memory&)>& function) {
  const std::scoped_lock lock(names_mutex_);
  const auto by_buffer = by_buffer_.find(buffer);
  if (by_buffer != by_buffer_.end()) return function(*by_buffer->second);
  const auto by_memory = by_memory_.find(memory);
  if (by_memory != by_memory_.end()) function(*by_memory->second);
}

void Logical::add_segment(int number) noexcept {
  const std::scoped_lock lock(mutex_);
  alive_.segments += static_cast<std::size_t>(number);
  ended_.notify_all();
}

void Logical::add_stream(int number) noexcept {
  const std::scoped_lock lock(mutex_);
  alive_.streams += static_cast<std::size_t>(number);
  ended_.notify_all();
}

bool Logical::wait_until_unused(std::chrono::nanoseconds limit) {
  std::unique_lock lock(mutex_);
  return ended_.wait_for(lock, limit, [this] { return alive_.streams == 0 && alive_.segments == 0; });
}

Population Logical::settle(bool closed) {
  const DriverCall call(Doing::end);
  std::unique_lock lock(mutex_);
  if (!call) return alive_;
  std::list<Flight> last;
  last.swap(graveyard_);
  buried_.store(false, std::memory_order_release);
  lock.unlock();
  for (const auto& flight : last) {
    try {
      flight.timeline->wait(flight.value, std::chrono::nanoseconds{-1});
    } catch (const Error&) {  // lost: nothing runs any more
    }
  }
  for (auto& queue : queues_) {
    const std::scoped_lock busy(*queue);
    fn.vkQueueWaitIdle(queue->handle);
  }
  last.clear();
  lock.lock();
  const bool no_stream = closed && alive_.streams == 0;
  lock.unlock();
  if (no_stream) region_shader_.destroy();  // else a stream may have recorded it, or may be made and record it now
  (void)free_spares();
  lock.lock();
  for (VkSemaphore semaphore : std::exchange(semaphores_, {})) fn.vkDestroySemaphore(handle, semaphore, nullptr);
  return alive_;
}

}  // namespace weir::vulkan
