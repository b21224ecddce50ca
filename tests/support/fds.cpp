// SPDX-License-Identifier: Apache-2.0
#include "fds.hpp"

#include <filesystem>

namespace weir::test {

namespace fs = std::filesystem;

std::size_t open_fds() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator("/proc/self/fd")) ++count;
  return count - 1;  // the iterator's own
}

std::string describe_fds() {
  std::string lines;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    const auto target = fs::read_symlink(entry.path(), ignored);
    lines += entry.path().filename().string() + " -> " + target.string() + '\n';
  }
  return lines;
}

}  // namespace weir::test
