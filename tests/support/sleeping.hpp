// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <fstream>
#include <string>

namespace weir::test {

/// Return whether a thread of this process sleeps in the kernel.
inline bool sleeps(pid_t thread) {
  std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string line;
  std::getline(stat, line);
  const auto name = line.rfind(')');  // which may hold anything
  return name != line.npos && line.compare(name, 3, ") S") == 0;
}

}  // namespace weir::test
