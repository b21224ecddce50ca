// SPDX-License-Identifier: Apache-2.0
#include "fds.hpp"

#include <filesystem>
#include <vector>

#include "weir/host.hpp"
#include "weir/resources/pool.hpp"

namespace weir::test {
namespace {

// Memory of earlier tests goes back behind them, on every device: trimming any plain resource of a device waits for it.
void settle_releases() {
  static const auto& resources = *new std::vector<ResourcePtr>([] {
    std::vector<ResourcePtr> one_each;
    for (const Device& device : devices()) {
      if (!device.kinds().empty()) one_each.push_back(make_resource(device, device.kinds().front().kind));
    }
    return one_each;
  }());
  for (const ResourcePtr& resource : resources) resource->trim(0);
}

// Files of exports whose importers are done are closed by a thread of the library, and its own with the last of them.
// Trimming any pool that exports waits for it.
void settle_leases() {
  static const auto& pool = *new PoolPtr(make_pool(host::make_shared_resource(), {.exportable = true}));
  pool->trim(0);
}

}  // namespace

namespace fs = std::filesystem;

std::size_t open_fds() {
  settle_leases();
  settle_releases();
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
