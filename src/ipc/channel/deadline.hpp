// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace weir::detail::channel {

using Clock = std::chrono::steady_clock;

/// A moment, or none: the clock does not count to the end of all time limits.
class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds timeout) noexcept
      : endless_(timeout.count() < 0 || timeout > std::chrono::years(100)), at_(endless_ ? Clock::time_point{} : Clock::now() + timeout) {}
  [[nodiscard]] bool endless() const noexcept { return endless_; }
  [[nodiscard]] Clock::time_point at() const noexcept { return at_; }
  [[nodiscard]] bool over() const noexcept { return !endless_ && Clock::now() >= at_; }
  /// Throw timed_out, with the reason `why` and in the name of `whose`, if the moment has passed.
  void check(const char* why, const char* whose = "ipc::Channel") const;
  /// Return the rest as calls with a time limit take it: rounded up, and negative for no limit.
  [[nodiscard]] std::chrono::milliseconds left() const noexcept;
  /// Return the rest as poll() takes it. That may be less than the rest.
  [[nodiscard]] int milliseconds() const noexcept;

 private:
  bool endless_;
  Clock::time_point at_;
};

}  // namespace weir::detail::channel
