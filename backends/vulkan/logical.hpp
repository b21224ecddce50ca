// SPDX-License-Identifier: Apache-2.0
#pragma once
// A VkDevice: its functions, queues, and what waits to be destroyed on it.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "driver.hpp"

namespace weir::vulkan {

class Memory;
class PhysicalDevice;
struct Flight;

/// A VkQueue and its one lock, whoever made the object; an application's queue comes with the application's lock
/// besides.
class Queue {
 public:
  /// Throws bad_alloc only.
  explicit Queue(VkQueue queue, std::function<void()> lock = {}, std::function<void()> unlock = {});
  void lock();
  void unlock();

  const VkQueue handle;

 private:
  std::mutex& mutex_;
  std::function<void()> lock_, unlock_;
};

/// How many objects on a device are alive.
struct Population {
  std::size_t segments = 0;
  std::size_t streams = 0;
};

class Logical {
 public:
  /// vkCreateDevice with `queue_count` queues of the chosen family. Throws.
  static std::unique_ptr<Logical> create(PhysicalDevice& device);
  /// Around a VkDevice, which is destroyed at the end unless it is adopted.
  Logical(PhysicalDevice& device, VkDevice handle, const DeviceTable& functions, bool adopted);
  ~Logical();
  Logical(const Logical&) = delete;
  Logical& operator=(const Logical&) = delete;

  void add_queue(std::unique_ptr<Queue> queue) { queues_.push_back(std::move(queue)); }
  /// The next in turn: streams are spread over the queues.
  Queue& next_queue() noexcept;
  [[nodiscard]] const std::string& name() const noexcept { return name_; }  ///< "vulkan:0 (…)"

  /// Destroy what a stream leaves behind (one Flight) once it is done: now, or in a later `collect`.
  void bury(std::list<Flight> flight) noexcept;
  /// Destroy what is done. Cheap when nothing is buried.
  void collect() noexcept;

  /// A timeline semaphore with nothing pending. Throws.
  [[nodiscard]] VkSemaphore take_semaphore();
  void give_semaphore(VkSemaphore semaphore) noexcept;

  /// Hold a little memory of every type in use, if there is none yet; give it back. After a failed import NVIDIA's
  /// driver (580) refuses every allocation of device memory until some is freed: so there must be some to free.
  void keep_spares() noexcept;
  bool free_spares() noexcept;  ///< whether there were any

  /// Count one more allocation of memory, unless the driver's limit is reached; spares make room.
  [[nodiscard]] bool count_allocation() noexcept;
  void uncount_allocation() noexcept { allocations_.fetch_sub(1, std::memory_order_relaxed); }

  /// Know `memory` by its handles, from where it has them until it is about to end. `remember` throws bad_alloc only.
  void remember(Memory& memory);
  void forget(Memory& memory) noexcept;
  /// Call `function` with weir's own memory in which that buffer lies, if it is one; `memory` may be null. The owner
  /// lives until `function` returns, which must not call this device.
  void with_owner(VkBuffer buffer, VkDeviceMemory memory, const std::function<void(Memory&)>& function);

  void add_segment(int number) noexcept;  ///< 1 or -1
  void add_stream(int number) noexcept;
  /// Wait up to `limit` for the last stream to end. Whether it did.
  bool wait_for_streams(std::chrono::nanoseconds limit);
  /// Wait for the queues and everything buried, destroy it and what is kept, and say what is still alive.
  Population settle();

  PhysicalDevice& device;
  const VkDevice handle;
  const bool adopted;
  const DeviceTable fn;

 private:
  bool count_one() noexcept;

  std::string name_;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::atomic<std::uint32_t> next_queue_{0};
  std::atomic<std::uint32_t> allocations_{0};
  std::mutex mutex_;  // of what follows
  std::condition_variable ended_;
  Population alive_;
  std::list<Flight> graveyard_;
  std::vector<VkSemaphore> semaphores_;  // to be used again
  std::vector<VkDeviceMemory> spares_;
  std::atomic<bool> buried_{false};
  std::mutex names_mutex_;  // of what follows
  std::unordered_map<VkBuffer, Memory*> by_buffer_;
  std::unordered_map<VkDeviceMemory, Memory*> by_memory_;
};

}  // namespace weir::vulkan
