// SPDX-License-Identifier: Apache-2.0
#pragma once
// Vector clocks: how much of each thread happens before a point.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace weir::explore {

inline constexpr std::size_t most_threads = 5;

struct Clock {
  std::array<std::uint32_t, most_threads> at{};

  void join(const Clock& other) noexcept {
    for (std::size_t i = 0; i < most_threads; ++i) at[i] = std::max(at[i], other.at[i]);
  }
};

}  // namespace weir::explore
