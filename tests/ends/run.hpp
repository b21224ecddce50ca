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

/// Why something cannot be tested in this build, because a sanitizer does not take part in it; empty when it can: forks
/// of programs with threads, ends of the main thread before others, libraries with thread-local objects that are
/// loaded at run time.
std::string no_forks_because();
std::string no_end_of_main_thread_because();
std::string no_thread_locals_because();

}  // namespace weir::test
