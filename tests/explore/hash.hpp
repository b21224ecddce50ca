// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace weir::explore {

/// Depends on the order of its arguments. Its results may be added up.
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t x = (a ^ 0x9e3779b97f4a7c15U) * 0xff51afd7ed558ccdU + b;
  x = (x ^ (x >> 32U)) * 0xc4ceb9fe1a85ec53U;
  x = (x ^ (x >> 29U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 32U);
}

}  // namespace weir::explore
