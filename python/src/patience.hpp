// SPDX-License-Identifier: Apache-2.0
#pragma once
// Waits with a time limit that Ctrl-C ends: they are done in slices, and between these it is answered.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "bind.hpp"
#include "integers.hpp"
#include "owners.hpp"
#include "weir/spi/interruptible.hpp"

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

/// Makes, at its end, the calls that threads without the GIL asked for meanwhile.
class PendingCallsAfterwards {
 public:
  PendingCallsAfterwards() = default;
  PendingCallsAfterwards(const PendingCallsAfterwards&) = delete;
  PendingCallsAfterwards& operator=(const PendingCallsAfterwards&) = delete;
  ~PendingCallsAfterwards() { make_pending_calls(); }
};

/// Call `attempt` with the time that it may take, until it does not time out or the patience is over.
template <class Attempt>
auto attempt_with(const Patience& patience, Attempt attempt) {
  const PendingCallsAfterwards afterwards;
  for (;;) {
    const auto now = patience.left(Patience::slice);
    try {
      return without_gil([&] { return attempt(now); });
    } catch (const Error& error) {
      if (error.code() != Errc::timed_out || patience.is_over()) throw;
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

/// Throw what a handler of a signal raises. Needs no GIL.
inline void answer_signals() {
  const WithGil gil;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

/// Run `f` without the GIL. Ctrl-C ends its waits for other processes.
template <class F>
decltype(auto) interruptibly(F&& f) {
  const PendingCallsAfterwards afterwards;
  return without_gil([&]() -> decltype(auto) {
    const spi::Interruptible here(&answer_signals);
    return f();
  });
}

}  // namespace weir::python
