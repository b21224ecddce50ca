// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is known to be complete: for each agent (a stream, or a process's own thread) the number of its steps.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir::test::random {

/// Vector clock over agents 0, 1, …
class Clock {
 public:
  [[nodiscard]] bool covers(std::size_t agent, std::uint32_t step) const {
    return agent < steps_.size() && steps_[agent] >= step;
  }
  [[nodiscard]] std::uint32_t of(std::size_t agent) const { return agent < steps_.size() ? steps_[agent] : 0; }
  void set(std::size_t agent, std::uint32_t step) {
    if (steps_.size() <= agent) steps_.resize(agent + 1);
    steps_[agent] = step;
  }
  void merge(const Clock& other) {
    if (steps_.size() < other.steps_.size()) steps_.resize(other.steps_.size());
    for (std::size_t i = 0; i < other.steps_.size(); ++i) steps_[i] = std::max(steps_[i], other.steps_[i]);
  }

 private:
  std::vector<std::uint32_t> steps_;
};

/// A set of gates, one bit each.
using Gates = std::uint64_t;
inline constexpr std::size_t most_gates = 64;

/// A point of an agent: what happened before it, which gates it certainly stands behind, and which it may.
struct Moment {
  Clock clock;
  Gates must = 0, may = 0;

  void merge(const Moment& other) {
    clock.merge(other.clock);
    must |= other.must;
    may |= other.may;
  }
};

}  // namespace weir::test::random
