// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long tests wait before they call something a hang. Nothing that passes takes as long.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>

namespace weir::test {

/// The watchdog's limit for one test.
[[nodiscard]] inline std::chrono::seconds test_limit() {
  const char* const text = std::getenv("WEIR_TEST_SECONDS");
  return std::chrono::seconds(text ? std::stol(text) : 60);
}

/// The limit for one answer of another process, which may have to start a driver beside many others.
[[nodiscard]] inline std::chrono::seconds answer_limit() {
  return std::max(test_limit() / 3, std::chrono::seconds{30});
}

}  // namespace weir::test
