// SPDX-License-Identifier: Apache-2.0
#include "settle.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

#include "stream/releases.hpp"
#include "weir/device.hpp"

namespace weir::test {
namespace {

bool has_threads() {
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", gone)) {
    std::ifstream comm(entry.path() / "comm");
    std::string name;
    std::getline(comm, name);
    if (name.starts_with("weir ")) return true;
  }
  return false;
}

}  // namespace

void await_threads() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{5};
  while (has_threads() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
}

void await_releases() {
  constexpr int as_often_as_ends_follow_each_other = 4;
  for (int i = 0; i < as_often_as_ends_follow_each_other; ++i) {
    for (const Device& each : devices()) detail::drain_releases(each.state());
  }
}

}  // namespace weir::test
