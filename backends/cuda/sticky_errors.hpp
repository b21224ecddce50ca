// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sticky errors: once the driver has answered one of them, it answers every later call with the same one.

#include <cuda.h>

#include <span>

namespace weir::cuda {

struct StickyError {
  enum class Ends { context, process };  ///< what must be made anew before CUDA can be used again

  CUresult result;
  Ends ends;
  bool stops_work;    ///< no work on the context's streams runs any more, and no function is called
  const char* words;  ///< the wording of cuda.h
};

/// Return all sticky errors of the newest cuda.h, ordered by result.
std::span<const StickyError> sticky_errors() noexcept;

/// Return the entry of `result`, or null.
const StickyError* find_sticky(CUresult result) noexcept;

/// Return whether every later call gets this answer. That is so if `result` is in the list. It is also so if weir does
/// not know `result`, because the driver is newer, and unrelated calls in the current context get the same answer.
bool is_last_answer(CUresult result) noexcept;
/// Return whether `result` is such a last answer, after which no work runs any more.
bool stops_work(CUresult result) noexcept;

}  // namespace weir::cuda
