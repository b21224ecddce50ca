// SPDX-License-Identifier: Apache-2.0
#pragma once
// Host functions that the driver calls in stream order, including those that it will never call because their device
// has stopped.

#include <cuda.h>

#include <functional>
#include <mutex>

#include "background.hpp"

namespace weir::cuda {

/// All functions that were launched and have not ended. Never destroyed.
class HostCalls {
 public:
  static HostCalls& get();

  /// Call cuLaunchHostFunc on a stream of `context`. Takes `function` over only on success. A thread of weir's destroys
  /// what the function owns, because a host function must not call the driver.
  CUresult launch(CUcontext context, CUstream stream, std::function<void()>& function);

  /// If `result` says that an error has stopped `context` for good, release what is owned by its functions that have
  /// not begun. Functions that run continue. `context` must be current.
  void notice(CUresult result, CUcontext context) noexcept;
  /// Return whether a function of a stream of `context` runs at this moment.
  bool runs_in(CUcontext context) noexcept;

 private:
  /// Its job, once the function has ended, is to destroy what the function owns.
  struct Call final : Background::Job {
    void run() noexcept override { function = nullptr; }
    CUcontext context = nullptr;
    std::function<void()> function;
    bool running = false;
    Call *previous = nullptr, *next = nullptr;
  };

  static void CUDA_CB run(void* data) noexcept;
  void link(Call& call);
  void unlink(Call& call);
  template <class Which>
  Call* find(const Which& which) {
    for (Call* call = first_.next; call != &first_; call = call->next) {
      if (which(*call)) return call;
    }
    return nullptr;
  }

  std::mutex mutex_;
  Call first_;  // the sentinel of a ring
};

}  // namespace weir::cuda
