// SPDX-License-Identifier: Apache-2.0
#pragma once
// Waits with a time limit that Ctrl-C ends: they are done in slices, and between these it is answered.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "integers.hpp"

namespace weir::python {

/// The end of a wait, or none.
class Patience {
  using Clock = std::chrono::steady_clock;
  using milliseconds = std::chrono::milliseconds;

 public:
  static constexpr milliseconds slice{100};

  /// None stands for no limit. Throws ValueError for what is no number of seconds, or less than 0.
  explicit Patience(std::optional<double> seconds) {
    if (!seconds) return;
    if (std::isnan(*seconds) || *seconds < 0)
      throw nb::value_error("timeout must be None or a number of seconds >= 0");
    end_ = Clock::now() + duration(*seconds, "timeout");
  }
  [[nodiscard]] bool is_over() const { return end_ && Clock::now() >= *end_; }
  /// Return the time that is left, at most `most`.
  [[nodiscard]] milliseconds left(milliseconds most) const {
    if (!end_) return most;
    return std::clamp(std::chrono::ceil<milliseconds>(*end_ - Clock::now()), milliseconds{0}, most);
  }
  /// Return all the time that is left; less than 0 when there is no limit.
  [[nodiscard]] milliseconds all() const { return end_ ? left(milliseconds::max()) : milliseconds{-1}; }

 private:
  std::optional<Clock::time_point> end_;
};

}  // namespace weir::python
