// SPDX-License-Identifier: Apache-2.0
#include "replay/figures.hpp"

#include <algorithm>
#include <numeric>

namespace weir::replay {

Summary summarize(std::span<std::uint64_t> times) {
  if (times.empty()) return {};
  std::sort(times.begin(), times.end());
  // Nearest rank, per mille, in integers.
  const auto at = [&](std::size_t mille) { return times[(times.size() * mille + 999) / 1000 - 1]; };
  return {times.size(), at(500),      at(990),
          at(999),      times.back(), std::accumulate(times.begin(), times.end(), std::uint64_t{0})};
}

const char* to_string(Part part) noexcept {
  switch (part) {
    case Part::first_half: return "first half";
    case Part::second_half: return "second half";
    case Part::whole: return "all";
  }
  return "unknown";
}

Figures figures_of(const Trace& trace, const Pass& pass) {
  Figures figures;
  const std::size_t count = trace.operations.size(), half = count / 2;
  std::vector<std::uint64_t> times;
  for (std::size_t a = 0; a < actions; ++a) {
    const auto action = static_cast<Action>(a);
    for (const Part part : parts) {
      times.clear();
      const std::size_t begin = part == Part::second_half ? half : 0,
                        end = part == Part::first_half ? half : count;
      for (std::size_t i = begin; i < end; ++i) {
        if (trace.operations[i].action == action && pass.times[i] != Pass::not_done)
          times.push_back(pass.times[i]);
      }
      if (part == Part::whole && times.empty()) {
        figures.rows.resize(figures.rows.size() - 2);  // the rows of its halves, which are just as empty
      } else {
        figures.rows.push_back({action, part, summarize(times)});
      }
    }
  }
  return figures;
}

double ratio(std::uint64_t reserved, std::uint64_t live) noexcept {
  return live == 0 ? 0 : static_cast<double>(reserved) / static_cast<double>(live);
}

}  // namespace weir::replay
