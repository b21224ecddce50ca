// SPDX-License-Identifier: Apache-2.0
#pragma once
// Statistics of the times of a pass.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "replay/player.hpp"
#include "replay/trace.hpp"

namespace weir::replay {

/// Statistics of a list of times, in nanoseconds. A percentile is the least time in the list such that at least that
/// share of all times do not exceed it.
struct Summary {
  std::size_t count = 0;
  std::uint64_t p50 = 0, p99 = 0, p999 = 0, max = 0, total = 0;
};
/// Summarize `times`, and sort them.
[[nodiscard]] Summary summarize(std::span<std::uint64_t> times);

enum class Part : std::uint8_t { first_half, second_half, whole };
inline constexpr std::array parts{Part::first_half, Part::second_half, Part::whole};
[[nodiscard]] const char* to_string(Part part) noexcept;

struct Figures {
  struct Row {
    Action action;
    Part part;
    Summary summary;
  };
  std::vector<Row> rows;  ///< one for each action that was done, in each part of the trace
};
[[nodiscard]] Figures figures_of(const Trace& trace, const Pass& pass);

/// Return the reserved bytes per live byte; 0 when nothing was live.
[[nodiscard]] double ratio(std::uint64_t reserved, std::uint64_t live) noexcept;

}  // namespace weir::replay
