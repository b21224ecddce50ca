// SPDX-License-Identifier: Apache-2.0
#include "fds.hpp"

#include <filesystem>

#include "weir/host.hpp"
#include "weir/resources/pool.hpp"

namespace weir::test {
namespace {

// Files of exports whose importers are done are closed by a thread of the library. Trimming any pool that exports waits for it.
void settle_leases() {
  static const auto& pool = *new PoolPtr(make_pool(host::make_shared_resource(), {.exportable = true}));
  pool->trim(0);
}

}  // namespace

namespace fs = std::filesystem;

std::size_t open_fds() {
  settle_leases();
  std::size_t count = 0, watched = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    const auto target = fs::read_symlink(entry.path(), ignored);
    if (target == "anon_inode:[eventpoll]" || target == "anon_inode:[eventfd]") ++watched;
    ++count;
  }
  // Those that the watch over leases needs, which ends a moment after the last of them.
  return count - (watched >= 2 ? 2 : 0) - 1;  // the iterator's own
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
