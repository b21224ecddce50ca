// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sizes and places at random, drawn before the time runs. The same in every run.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace weir::bench {

enum class Sizes {
  powers_of_two,  ///< 256 bytes to 512 KiB
  any,            ///< between those, each doubling as often as the next
};

struct Step {
  std::uint32_t place;
  std::uint32_t bytes;
};

inline constexpr std::size_t step_count = 1 << 16;

/// That many steps, to be repeated.
inline std::vector<Step> draw_steps(std::size_t places, Sizes sizes) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> doublings(8, 19);
  std::vector<Step> steps(step_count);
  for (Step& step : steps) {
    step.place = static_cast<std::uint32_t>(random() % places);
    step.bytes = sizes == Sizes::any ? static_cast<std::uint32_t>(std::exp2(doublings(random)))
                                     : 256U << (random() % 12);
  }
  return steps;
}

}  // namespace weir::bench
