// SPDX-License-Identifier: Apache-2.0
#include "target.hpp"

#include <poll.h>

#include <array>
#include <utility>

#include "fds.hpp"
#include "sink.hpp"

namespace weir::fuzz {
namespace {

constexpr std::size_t watched = 512;

// Which of the first numbers are open files, by one system call.
std::array<bool, watched> open_numbers() {
  std::array<pollfd, watched> entries{};
  for (std::size_t i = 0; i < watched; ++i) entries[i].fd = static_cast<int>(i);
  ::poll(entries.data(), entries.size(), 0);
  std::array<bool, watched> open{};
  for (std::size_t i = 0; i < watched; ++i) open[i] = (entries[i].revents & POLLNVAL) == 0;
  return open;
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
  if (open_numbers() != before) throw Violation("other files are open than before:\n" + test::describe_fds());
}

}  // namespace weir::fuzz
