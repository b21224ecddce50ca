// SPDX-License-Identifier: Apache-2.0
#include "fds.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/file_closer.hpp"
#include "ipc/channel/watcher.hpp"
#include "settle.hpp"
#include "weir/host.hpp"
#include "weir/pool.hpp"

namespace weir::test {
namespace {

namespace fs = std::filesystem;

// Files of exports whose importers are done are closed by a thread of the library, and its own with the last of them.
// Trimming any pool that exports waits for it.
void settle_leases() {
  static const auto& pool = *new PoolPtr(make_pool(host::make_shared_resource(), {.exportable = true}));
  pool->trim(0);
}

// Connections that have ended close their files on a thread, which keeps two of its own a little longer unless it is
// asked.
void settle_connections() {
  constexpr int as_often_as_ends_follow_each_other = 4;
  for (int i = 0; i < as_often_as_ends_follow_each_other && detail::channel::settle_channels(); ++i) {
  }
}

// A descriptor's number, and its file. Another thread may close one while they are read.
std::vector<std::pair<std::string, std::string>> files() {
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const fs::path file = fs::read_symlink(entry.path(), gone);
    if (!gone) all.emplace_back(entry.path().filename().string(), file.string());
  }
  return all;
}

// NVIDIA's driver opens the device of a GPU once more now and then, and keeps that for later. Threads of the drivers
// write compiled shaders to files whenever they get round to it.
bool is_drivers_own(const std::string& file) {
  constexpr std::string_view device = "/dev/nvidia";
  if (file.starts_with(device)) return file.size() > device.size() && std::isdigit(file[device.size()]) != 0;
  constexpr std::string_view caches[] = {"/mesa_shader_cache", "/.nv/", "/nvidia/GLCache"};
  return std::ranges::any_of(caches, [&](std::string_view cache) { return file.find(cache) != std::string::npos; });
}

}  // namespace

void settle_files() {
  while (detail::files_to_close() != 0) {  // the watchdog ends it if one never closes
    detail::settle_closes();
    std::this_thread::yield();
  }
}

std::size_t open_fds() {
  settle_connections();
  settle_leases();
  await_releases();  // memory of earlier tests goes back behind them
  settle_files();
  const auto all = files();
  const auto counted =
      std::count_if(all.begin(), all.end(), [](const auto& each) { return !is_drivers_own(each.second); });
  return static_cast<std::size_t>(counted) - 1;  // the one that they are read from
}

std::size_t mapped_memfds() {
  std::ifstream maps("/proc/self/maps");
  std::set<std::string> inodes;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:") == std::string::npos) continue;
    std::istringstream fields(line);
    std::string range, access, offset, device, inode;
    fields >> range >> access >> offset >> device >> inode;
    inodes.insert(device + ' ' + inode);
  }
  return inodes.size();
}

std::string describe_fds() {
  std::string lines;
  for (const auto& [number, file] : files()) lines += number + " -> " + file + '\n';
  return lines;
}

}  // namespace weir::test
