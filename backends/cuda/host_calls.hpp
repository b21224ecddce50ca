// SPDX-License-Identifier: Apache-2.0
#pragma once
// Functions that the driver calls in stream order, and those that it never will, because their device has stopped.

#include <cuda.h>

#include <functional>
#include <mutex>

namespace weir::cuda {

/// All that were launched and have not ended. Never destroyed.
class HostCalls {
 public:
  static HostCalls& get();

  /// cuLaunchHostFunc on a stream of `context`. Takes `function` over only on success. What the function owns ends on a
  /// thread of ours, because the driver forbids calls to it in the function.
  CUresult launch(CUcontext context, CUstream stream, std::function<void()>& function);

  /// When `result` says that an error has stopped `context`, which is current, for good: let go of what its functions
  /// own that have not begun. Those that run go on.
  void notice(CUresult result, CUcontext context) noexcept;
  /// Whether a function of a stream of `context` runs at this moment.
  bool runs_in(CUcontext context) noexcept;

 private:
  struct Call {
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
  Call first_;  // of a ring
};

}  // namespace weir::cuda
