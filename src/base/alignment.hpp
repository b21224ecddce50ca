// SPDX-License-Identifier: Apache-2.0
#pragma once
// The alignments that a caller may ask for.

#include <cstddef>
#include <string>

#include "weir/error.hpp"

namespace weir::detail {

inline constexpr std::size_t largest_alignment = std::size_t{1} << 30;

/// Return whether `alignment` is a power of two and at most `most`, which must be a power of two. This avoids
/// std::has_single_bit, which calls a function to count the bits where the compiler may not use the instruction for it.
constexpr bool can_align(std::size_t alignment, std::size_t most = largest_alignment) noexcept {
  return alignment - 1 < most && (alignment & (alignment - 1)) == 0;
}

/// Throw invalid_argument: `who` was asked for an `alignment` that can_align() does not accept.
[[noreturn]] inline void refuse_alignment(const std::string& who, std::size_t alignment,
                                          std::size_t most = largest_alignment) {
  throw Error(Errc::invalid_argument, who + ": alignment " + std::to_string(alignment) +
                                          " is not a power of two of at most " + std::to_string(most) + " bytes");
}

}  // namespace weir::detail
