// SPDX-License-Identifier: Apache-2.0
#pragma once
// Running a program to its end, with everything that it starts, under a watchdog.

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace weir::test {

struct Ended {
  int code = 0;  ///< exit code, or minus the signal
  bool late = false;  ///< it, or a process that it forked, had to be killed
  std::string out, err;
};

/// Run `program` of the test directory until it and all processes that it forked are gone; kills them after `limit`.
Ended run(const std::string& program, const std::vector<std::string>& arguments,
          std::chrono::seconds limit = std::chrono::seconds{50});

/// Whether `run` ended in time with `code`, said nothing on stderr, and ended with the line "done" on stdout.
testing::AssertionResult ends_well(const std::string& program, const std::vector<std::string>& arguments, int code = 0);

/// Why forks of programs with threads cannot be tested in this build; empty when they can.
std::string no_forks_because();

}  // namespace weir::test
