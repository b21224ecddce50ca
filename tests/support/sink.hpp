// SPDX-License-Identifier: Apache-2.0
#pragma once
// What destructors and callbacks report. A report that no test expects fails the test that runs.

#include <cstddef>
#include <string>
#include <vector>

namespace weir::test {

struct Reported {
  std::string where;
  std::string message;
};

/// Collect reports from now on; installed by main().
void install_sink();
/// Everything reported since the last call. A test that expects reports takes them.
std::vector<Reported> take_reports();
/// The same once there are at least `count`, for reports of other threads.
std::vector<Reported> await_reports(std::size_t count);

}  // namespace weir::test
