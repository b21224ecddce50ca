// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sleeps of a few microseconds.

#include <sys/prctl.h>

namespace weir::detail {

/// While this object lives, a sleep of this thread ends when it should. Otherwise the system may add 50 microseconds.
class FineSleeps {
 public:
  FineSleeps() noexcept : slack_(::prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0)) { set(1); }
  FineSleeps(const FineSleeps&) = delete;
  FineSleeps& operator=(const FineSleeps&) = delete;
  ~FineSleeps() { set(slack_); }

 private:
  // 0 would mean the thread's default, and where the system refuses, sleeps are as they were.
  static void set(int slack) noexcept {
    if (slack > 0) (void)::prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(slack), 0, 0, 0);
  }
  const int slack_;
};

}  // namespace weir::detail
