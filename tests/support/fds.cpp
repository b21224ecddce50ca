// SPDX-License-Identifier: Apache-2.0
#include "fds.hpp"

#include <filesystem>
#include <thread>
#include <vector>

#include "closer.hpp"
#include "settle.hpp"
#include "weir/host.hpp"
#include "weir/resources/pool.hpp"

namespace weir::test {
namespace {

// Files of exports whose importers are done are closed by a thread of the library, and its own with the last of them.
// Trimming any pool that exports waits for it.
void settle_leases() {
  static const auto& pool = *new PoolPtr(make_pool(host::make_shared_resource(), {.exportable = true}));
  pool->trim(0);
}

}  // namespace

namespace fs = std::filesystem;

void settle_files() {
  while (detail::files_to_close() != 0) {  // the watchdog ends it if one never closes
    detail::settle_closes();
    std::this_thread::yield();
  }
}

std::size_t open_fds() {
  settle_leases();
  await_releases();  // memory of earlier tests goes back behind them
  settle_files();
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
