// SPDX-License-Identifier: Apache-2.0
#pragma once
// Answers of the driver that are its last: every later call gets the same one.

#include <cuda.h>

#include <span>

namespace weir::cuda {

struct StickyError {
  enum class Ends { context, process };  ///< what must be made anew to go on with CUDA

  CUresult result;
  Ends ends;
  bool stops_work;    ///< nothing that is on the context's streams runs or is called any more
  const char* words;  ///< how cuda.h says so
};

/// All of them, as the newest cuda.h has them. Ordered by result.
std::span<const StickyError> sticky_errors() noexcept;

/// The entry of `result`, or null.
const StickyError* find_sticky(CUresult result) noexcept;

/// Whether every later call gets this answer: it is in the list; or nobody here knows it, because the driver is newer,
/// and calls about something else in the current context get it, too.
bool is_last_answer(CUresult result) noexcept;
/// The same, and nothing runs any more.
bool stops_work(CUresult result) noexcept;

}  // namespace weir::cuda
