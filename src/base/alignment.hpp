// SPDX-License-Identifier: Apache-2.0
#pragma once
// What may be asked for as an alignment.

#include <cstddef>
#include <string>

#include "weir/error.hpp"

namespace weir::detail {

inline constexpr std::size_t largest_alignment = std::size_t{1} << 30;

/// Whether `alignment` is a power of two of at most `most`, itself one. Without std::has_single_bit, which counts the bits
/// by a call where the compiler may not use the instruction for it.
constexpr bool can_align(std::size_t alignment, std::size_t most = largest_alignment) noexcept {
  return alignment - 1 < most && (alignment & (alignment - 1)) == 0;
}

/// Throw that `who` was asked for one that it may not be.
[[noreturn]] inline void refuse_alignment(const std::string& who, std::size_t alignment,
                                          std::size_t most = largest_alignment) {
  throw Error(Errc::invalid_argument, who + ": alignment " + std::to_string(alignment) +
                                          " is not a power of two of at most " + std::to_string(most) + " bytes");
}

}  // namespace weir::detail
