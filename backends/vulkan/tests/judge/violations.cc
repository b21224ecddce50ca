// SPDX-License-Identifier: Apache-2.0
// What no correct program does, recorded for the test that runs.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "world.hpp"

namespace judge {
namespace {

constexpr std::size_t most_lines = 20;  // the first ones say enough

struct Recorded {
  std::vector<std::string> lines;
  std::size_t count = 0;
};
Recorded& recorded() {
  static auto& all = *new Recorded;
  return all;
}

std::uint32_t number(const char* name, std::uint32_t otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10)) : otherwise;
}

}  // namespace

std::mutex& lock_of_all() {
  static auto& mutex = *new std::mutex;
  return mutex;
}

World& world() {
  static auto& all = *new World;  // leaked: calls come also while the process ends
  return all;
}

Next& next() {
  static auto& functions = *new Next;
  return functions;
}

const Settings& settings() {
  static const Settings values{.queues = number("JUDGED_VULKAN_QUEUES", 4),
                               .eager = number("JUDGED_VULKAN_EAGER", 0) != 0,
                               .discrete = number("JUDGED_VULKAN_DISCRETE", 0) != 0,
                               .noncoherent = number("WEIR_VULKAN_FORCE_NONCOHERENT", 0) != 0,
                               .allocations = number("JUDGED_VULKAN_ALLOCATIONS", 0)};
  return values;
}

void violation(const char* call, const std::string& what) {
  auto& all = recorded();
  ++all.count;
  if (all.lines.size() < most_lines) all.lines.push_back(std::string(call) + ": " + what);
  // Who else would ask?
  const char* keeper = std::getenv("JUDGED_VULKAN_KEEPER");
  if (keeper && std::strtol(keeper, nullptr, 10) == getpid()) return;
  std::fprintf(stderr, "judged Vulkan: %s: %s\n", call, what.c_str());
  if (keeper) std::abort();
}

std::string describe(const Access& access) {
  return std::string(access.call) + " of batch " + std::to_string(access.batch) + " on queue " +
         std::to_string(access.point.queue);
}

std::string bytes(Bytes begin, Bytes end, const Memory& memory) {
  return "bytes " + std::to_string(begin) + " to " + std::to_string(end) + " of memory " +
         std::to_string(memory.payload->number);
}

}  // namespace judge

#pragma GCC visibility push(default)
extern "C" {

/// For the process that JUDGED_VULKAN_KEEPER names by its number: how often the rules were broken since the last call,
/// and how, a line each.
std::size_t judged_vulkan_violations(char* text, std::size_t size) {
  const judge::Lock lock(judge::lock_of_all());
  auto& all = judge::recorded();
  std::string lines;
  for (const std::string& line : all.lines) lines += line + '\n';
  if (all.count > all.lines.size()) lines += "and " + std::to_string(all.count - all.lines.size()) + " more\n";
  const std::size_t count = all.count;
  all = {};
  if (size != 0) std::snprintf(text, size, "%s", lines.c_str());
  return count;
}
}
#pragma GCC visibility pop
