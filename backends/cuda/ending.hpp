// SPDX-License-Identifier: Apache-2.0
#pragma once
// The end of the process. The driver shuts itself down then, even if other threads still use it, and answers every call
// with CUDA_ERROR_DEINITIALIZED. From then on everything counts as complete.

#include "weir/error.hpp"

namespace weir::cuda {

/// Thrown for calls that the driver can no longer answer. Destructors and queries take it for "complete".
class ProcessEnds : public Error {
 public:
  explicit ProcessEnds(const char* call);
};

/// Watch for the end of the process from now on, and remember which thread ends it.
void watch_end_of_process() noexcept;

/// Return whether the end of the process has begun.
bool process_ends() noexcept;

/// Throw ProcessEnds. Threads other than the one that ends the process wait here for a while before that, because the
/// process may die at any moment. On such a thread the exception is of no use to anybody, and if nobody catches it, it
/// turns an orderly exit into an abort.
[[noreturn]] void end_call(const char* call);

}  // namespace weir::cuda
