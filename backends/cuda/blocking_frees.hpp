// SPDX-License-Identifier: Apache-2.0
#pragma once
// cuMemFree and cuMemFreeHost wait until all work on the device is complete. Meanwhile they block every call, of any
// thread, that puts work on the device. (Seen with driver 580.159; the calls for mapped and stream-ordered memory do
// neither.) Nobody may call them while a stream waits for the host: whatever lets the stream continue may need the
// driver.

#include <cuda.h>

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <vector>

#include "device.hpp"

namespace weir::cuda {

/// The blocking frees of all devices. There is one object for all, because streams wait for each other across devices,
/// and so for the host. Never destroyed.
class BlockingFrees {
 public:
  static BlockingFrees& get() noexcept;

  /// Memory that cuMemFree or cuMemFreeHost frees.
  struct Memory {
    Gpu* gpu;
    MemoryKind kind;
    std::size_t bytes;
    CUdeviceptr address = 0;
    void* host = nullptr;
    CUexternalMemory external = nullptr;  ///< the import to end after the free, if the memory is another API's
    spi::Ref<spi::Segment> source = {};   ///< that memory, which is given back last
  };

  /// Make room to put off the free of memory that is about to be allocated. If the allocation fails, call `forget`.
  /// Throws std::bad_alloc.
  void expect();
  void forget() noexcept;
  /// Free memory that is no longer in use: now, or as soon as no stream waits for the host. Failures are reported.
  void free(Memory memory) noexcept;
  /// Free memory for which `expect` was not called. If no room can be made for its free, the memory is leaked.
  void free_unexpected(Memory memory) noexcept;
  /// Take back memory of the same device, kind and size whose free was put off, and fill in its addresses. Such memory
  /// needs no `expect`. False when there is none.
  bool take_back(Memory& memory) noexcept;
  /// Free what can be freed now. Unless a stream waits for the host, also wait for frees that other threads have begun.
  /// Returns whether there was anything.
  bool settle() noexcept;

  /// Call these around a stream's wait for the host. `begin_wait` waits for frees that the driver is working on.
  void begin_wait() noexcept;
  void end_wait() noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;

  /// Make the driver call. The lock is released meanwhile.
  void call(Memory memory, Lock& lock) noexcept;
  bool free_postponed(Lock& lock) noexcept;

  std::mutex mutex_;
  std::condition_variable none_runs_;
  std::size_t waits_ = 0, running_ = 0;
  std::size_t expected_ = 0;  // frees for which postponed_ has room, so that putting them off needs no memory
  std::vector<Memory> postponed_;
};

}  // namespace weir::cuda
