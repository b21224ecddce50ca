// SPDX-License-Identifier: Apache-2.0
#pragma once
// cuMemFree and cuMemFreeHost: they wait until everything on the device is over, and meanwhile keep every call waiting
// that puts work on it, of all threads (seen with driver 580.159; calls for mapped and stream-ordered memory do
// neither). While a stream waits for the host, nobody may call them: what lets the stream go on may need the driver.

#include <cuda.h>

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <vector>

#include "device.hpp"

namespace weir::cuda {

/// Those of all devices: streams wait for each other across devices, and so for the host. Never destroyed.
class BlockingFrees {
 public:
  static BlockingFrees& get() noexcept;

  /// Memory that one of those calls frees.
  struct Memory {
    Gpu* gpu;
    MemoryKind kind;
    std::size_t bytes;
    CUdeviceptr address = 0;
    void* host = nullptr;
  };

  /// Before memory is taken: have room for its free. Throws std::bad_alloc. `forget` it, if nothing was taken.
  void expect();
  void forget() noexcept;
  /// Free memory that is not used any more, now or once no stream waits for the host. Failures are reported.
  void free(const Memory& memory) noexcept;
  /// Memory that was not expected. Without room for its free, it is leaked.
  void free_unexpected(const Memory& memory) noexcept;
  /// Take back memory of this device, kind and size whose free was put off: fills in where it is. It is expected
  /// already.
  bool take_back(Memory& memory) noexcept;
  /// Free what can be freed now, and wait for what others free. True when there was anything.
  bool settle() noexcept;

  /// Around a stream's wait for the host. `begin_wait` waits for frees that the driver works on.
  void begin_wait() noexcept;
  void end_wait() noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;

  /// Without the lock meanwhile.
  void call(const Memory& memory, Lock& lock) noexcept;
  bool free_postponed(Lock& lock) noexcept;

  std::mutex mutex_;
  std::condition_variable none_runs_;
  std::size_t waits_ = 0, running_ = 0;
  std::size_t expected_ = 0;  // as many can be put off without asking for memory
  std::vector<Memory> postponed_;
};

}  // namespace weir::cuda
