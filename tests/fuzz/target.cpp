// SPDX-License-Identifier: Apache-2.0
#include "target.hpp"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/file_closer.hpp"
#include "fds.hpp"
#include "sink.hpp"

namespace weir::fuzz {
namespace {

constexpr std::size_t watched = 512;

// Which of the first numbers are open files, by one system call, once all files of strangers are closed.
std::array<bool, watched> open_numbers() {
  while (detail::files_to_close() != 0) detail::settle_closes();
  std::array<pollfd, watched> entries{};
  for (std::size_t i = 0; i < watched; ++i) entries[i].fd = static_cast<int>(i);
  ::poll(entries.data(), entries.size(), 0);
  std::array<bool, watched> open{};
  for (std::size_t i = 0; i < watched; ++i) open[i] = (entries[i].revents & POLLNVAL) == 0;
  return open;
}

// NVIDIA's drivers open a GPU's node now and then, as work needs it, and keep it; exported memory is /dev/nvidiactl.
bool is_gpu_node(std::size_t number) {
  std::array<char, 32> target{};
  const auto length = ::readlink(("/proc/self/fd/" + std::to_string(number)).c_str(), target.data(), target.size());
  const std::string_view name(target.data(), length < 0 ? 0 : static_cast<std::size_t>(length));
  constexpr std::string_view node = "/dev/nvidia";
  return name.starts_with(node) && name.find_first_not_of("0123456789", node.size()) == name.npos;
}

bool same_files(const std::array<bool, watched>& before, const std::array<bool, watched>& after) {
  for (std::size_t i = 0; i < watched; ++i) {
    if (before[i] != after[i] && (before[i] || !is_gpu_node(i))) return false;
  }
  return true;
}

}  // namespace

std::vector<Target>& targets() {
  static auto& all = *new std::vector<Target>;
  return all;
}

Register::Register(std::string name, void (*run)(std::span<const std::byte>)) {
  targets().push_back({std::move(name), run});
}

void run(const Target& target, std::span<const std::byte> bytes) {
  const auto before = open_numbers();
  target.run(bytes);
  for (const test::Reported& report : test::take_reports()) {
    throw Violation("reported to the failure sink by " + report.where + ": " + report.message);
  }
  if (!same_files(before, open_numbers()))
    throw Violation("other files are open than before:\n" + test::describe_fds());
}

}  // namespace weir::fuzz
