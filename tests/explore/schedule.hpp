// SPDX-License-Identifier: Apache-2.0
#pragma once
// A schedule as one line of text: `0*3,1,0f,=1` lets thread 0 take three steps and thread 1 one, moves the oldest store
// of thread 0 to memory, and takes the second of several outcomes.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weir::explore {

struct Decision {
  enum Kind : std::uint8_t { step, flush, outcome };
  Kind kind;
  std::uint8_t which;  ///< thread, or number of the outcome
  friend bool operator==(const Decision&, const Decision&) = default;
};

using Schedule = std::vector<Decision>;

[[nodiscard]] std::string to_text(const Schedule& schedule);
/// Throws std::invalid_argument.
[[nodiscard]] Schedule parse_schedule(std::string_view text);

}  // namespace weir::explore
