// SPDX-License-Identifier: Apache-2.0
#pragma once
// The end of the process. The driver takes itself down then, without asking who still runs, and answers every call with
// CUDA_ERROR_DEINITIALIZED; everything counts as complete.

#include "weir/error.hpp"

namespace weir::cuda {

/// What is thrown for calls that nobody can answer any more. Destructors and questions take it for "complete".
class ProcessEnds : public Error {
 public:
  explicit ProcessEnds(const char* call);
};

/// Remember from now on which thread ends the process.
void watch_end_of_process() noexcept;

/// Whether the end has begun.
bool process_ends() noexcept;

/// Throw ProcessEnds. Threads other than the one that ends the process, which dies at any moment, stay in here for a while
/// first: an exception there is of no use to anybody, and one that nobody catches would turn an orderly exit into an abort.
[[noreturn]] void end_call(const char* call);

}  // namespace weir::cuda
