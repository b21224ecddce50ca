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

  /// Free memory that is not used any more, now or once no stream waits for the host. Failures are reported.
  void free(Gpu& gpu, CUdeviceptr address) noexcept { run({&gpu, address, nullptr}); }
  void free_host(Gpu& gpu, void* memory) noexcept { run({&gpu, 0, memory}); }
  /// Free what can be freed now, and wait for what others free. True when there was anything.
  bool settle() noexcept;

  /// Around a stream's wait for the host. `begin_wait` waits for frees that the driver works on.
  void begin_wait() noexcept;
  void end_wait() noexcept;

 private:
  struct Free {
    Gpu* gpu;
    CUdeviceptr address;
    void* host;  ///< instead, page-locked
  };
  using Lock = std::unique_lock<std::mutex>;

  void run(Free free) noexcept;
  /// Without the lock meanwhile.
  void call(const Free& free, Lock& lock) noexcept;
  bool free_postponed(Lock& lock) noexcept;

  std::mutex mutex_;
  std::condition_variable none_runs_;
  std::size_t waits_ = 0, running_ = 0;
  std::vector<Free> postponed_;
};

}  // namespace weir::cuda
