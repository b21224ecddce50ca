// SPDX-License-Identifier: Apache-2.0
#pragma once
// A VkDevice: its functions, its queues, and what waits to be destroyed on it.

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
#include "region_shader.hpp"

namespace weir::vulkan {

class Memory;
class PhysicalDevice;
struct Flight;

/// A VkQueue and its lock. All Queue objects of one VkQueue share one lock. An application's queue has the
/// application's own lock besides.
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
  /// Call vkCreateDevice with `queue_count` queues of the chosen family. Throws.
  static std::unique_ptr<Logical> create(PhysicalDevice& device);
  /// Wrap a VkDevice. The destructor destroys it unless it is adopted.
  Logical(PhysicalDevice& device, VkDevice handle, const DeviceTable& functions, bool adopted);
  ~Logical();
  Logical(const Logical&) = delete;
  Logical& operator=(const Logical&) = delete;

  void add_queue(std::unique_ptr<Queue> queue) { queues_.push_back(std::move(queue)); }
  /// Return the next queue in turn: streams are spread over the queues.
  Queue& next_queue() noexcept;
  [[nodiscard]] const std::string& name() const noexcept { return name_; }  ///< "vulkan:0 (…)"

  /// Destroy what a stream leaves behind (one Flight) once its work is complete: now, or in a later `collect`.
  void bury(std::list<Flight> flight) noexcept;
  /// Destroy what was buried and is complete. Cheap when nothing is buried.
  void collect() noexcept;

  /// Return a timeline semaphore with nothing pending. Throws.
  [[nodiscard]] VkSemaphore take_semaphore();
  void give_semaphore(VkSemaphore semaphore) noexcept;

  /// Hold a little memory of every type in use, if none is held yet; `free_spares` gives it back. After a failed
  /// import, NVIDIA's driver (580) refuses every allocation of device memory until some is freed. So there must be some
  /// to free.
  void keep_spares() noexcept;
  bool free_spares() noexcept;  ///< returns whether there were any

  /// Count one more allocation of memory. At the driver's limit, free the spares to make room; false if that is not
  /// enough.
  [[nodiscard]] bool count_allocation() noexcept;
  void uncount_allocation() noexcept { allocations_.fetch_sub(1, std::memory_order_relaxed); }

  /// Remember `memory` by its handles, once it has them; forget it when it is about to end. `remember` throws bad_alloc
  /// only.
  void remember(Memory& memory);
  void forget(Memory& memory) noexcept;
  /// If `buffer` or `memory` is a handle of weir's own memory, call `function` with that Memory, which lives until
  /// `function` returns. `memory` may be null. `function` must not call this device.
  void with_owner(VkBuffer buffer, VkDeviceMemory memory, const std::function<void(Memory&)>& function);

  [[nodiscard]] RegionShader& region_shader() noexcept { return region_shader_; }

  void add_segment(int number) noexcept;  ///< 1 or -1
  void add_stream(int number) noexcept;
  /// Wait up to `limit` for the last stream and the last segment to end. Returns whether they did.
  bool wait_until_unused(std::chrono::nanoseconds limit);
  /// Wait for the queues and for everything that is buried; destroy that, the spares and the kept semaphores. If the
  /// device is closed and has no stream, destroy its pipelines, too. Returns what is still alive.
  Population settle(bool closed);

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
  std::mutex mutex_;  // guards alive_, graveyard_, semaphores_ and spares_
  std::condition_variable ended_;
  Population alive_;
  std::list<Flight> graveyard_;
  std::vector<VkSemaphore> semaphores_;  // kept for reuse
  std::vector<VkDeviceMemory> spares_;
  std::atomic<bool> buried_{false};
  RegionShader region_shader_{*this};
  std::mutex names_mutex_;  // guards the two maps
  std::unordered_map<VkBuffer, Memory*> by_buffer_;
  std::unordered_map<VkDeviceMemory, Memory*> by_memory_;
};

}  // namespace weir::vulkan
