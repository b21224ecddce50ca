// SPDX-License-Identifier: Apache-2.0
#pragma once
// A failure sink that calls what it is told of.

#include <atomic>
#include <functional>
#include <utility>

#include "weir/error.hpp"

namespace weir::test {

/// Takes reports instead of the sink of all tests, and does something at the first one.
class OnReport {
 public:
  template <class Action>
  explicit OnReport(Action action) {
    action_ = std::move(action);
    begun_ = false;
    count_ = 0;
    before_ = set_failure_sink(&take);
  }
  OnReport(const OnReport&) = delete;
  OnReport& operator=(const OnReport&) = delete;
  ~OnReport() {
    set_failure_sink(before_);
    action_ = nullptr;
  }
  /// Return how many reports have been dealt with.
  [[nodiscard]] static int count() { return count_; }

 private:
  static void take(const Failure& /*failure*/) noexcept {
    if (!begun_.exchange(true)) action_();
    ++count_;
  }
  FailureSink before_;
  static inline std::function<void()> action_;
  static inline std::atomic<bool> begun_{false};
  static inline std::atomic<int> count_{0};
};

}  // namespace weir::test
