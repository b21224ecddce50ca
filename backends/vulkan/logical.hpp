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
#include <vector>

#include "driver.hpp"

namespace weir::vulkan {

class PhysicalDevice;
struct Flight;

/// A VkQueue and its one lock; an application's queue comes with the application's lock besides.
class Queue {
 public:
  Queue(VkQueue queue, std::function<void()> lock = {}, std::function<void()> unlock = {})
      : handle(queue), lock_(std::move(lock)), unlock_(std::move(unlock)) {}
  void lock();
  void unlock();

  const VkQueue handle;

 private:
  std::mutex mutex_;
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
  void free_spares() noexcept;

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
  std::atomic<std::uint32_t> allocations{0};  ///< of memory, against the driver's limit

 private:
  std::string name_;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::atomic<std::uint32_t> next_queue_{0};
  std::mutex mutex_;  // of what follows
  std::condition_variable ended_;
  Population alive_;
  std::list<Flight> graveyard_;
  std::vector<VkSemaphore> semaphores_;  // to be used again
  std::vector<VkDeviceMemory> spares_;
  std::atomic<bool> buried_{false};
};

}  // namespace weir::vulkan
