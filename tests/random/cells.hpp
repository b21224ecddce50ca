// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory as the model sees it: a value or "anything" per byte, and who touched which range last.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "clock.hpp"

namespace weir::test::random {

/// A byte's value, or `anything` while nobody wrote it.
using Cell = std::uint16_t;
inline constexpr Cell anything = 256;

/// A range that an agent reads or writes.
struct Range {
  std::size_t begin, end;
  bool write;
};

class Cells {
 public:
  explicit Cells(std::size_t bytes) : values_(bytes, anything) {}

  /// Agents whose conflicting work on the range `known` does not cover. Two reads never conflict.
  [[nodiscard]] std::vector<std::size_t> unordered(const Range& range, const Clock& known) const;
  /// The agent's `step` touches the range, after everything that conflicts.
  void touch(const Range& range, std::size_t agent, std::uint32_t step);
  /// The agent is gone after its step `done`: what it was to write later may be there or not.
  void lose(std::size_t agent, std::uint32_t done);

  [[nodiscard]] std::size_t size() const { return values_.size(); }

  [[nodiscard]] std::vector<Cell> get(std::size_t begin, std::size_t end) const;
  void set(std::size_t begin, std::span<const Cell> values);
  void set(std::size_t begin, std::span<const std::byte> values);

 private:
  struct Access {
    Range range;
    std::size_t agent;
    std::uint32_t step;
  };
  std::vector<Cell> values_;
  std::vector<Access> accesses_;
};

}  // namespace weir::test::random
