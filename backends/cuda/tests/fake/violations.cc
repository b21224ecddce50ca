// SPDX-License-Identifier: Apache-2.0
// What no correct program does, recorded for the test that runs; and how many objects were made and destroyed.
#include "world.hpp"

#include <array>
#include <cstdio>
#include <cstring>

namespace fake {
namespace {

constexpr auto kinds = static_cast<std::size_t>(Kind::count);

struct Count {
  std::size_t made, ended;
};
std::array<Count, kinds> counts{};

std::vector<std::string>& recorded() {
  static auto& list = *new std::vector<std::string>;
  return list;
}

std::string table() {
  static constexpr const char* names[] = {"contexts", "streams",  "events", "allocations", "address ranges",
                                          "handles",  "mappings", "pools",  "imports"};
  static_assert(std::size(names) == kinds);
  std::string text;
  for (std::size_t i = 0; i < kinds; ++i) {
    text += std::string(names[i]) + ' ' + std::to_string(counts[i].made) + " made, " + std::to_string(counts[i].ended) +
            " destroyed\n";
  }
  return text;
}

void hand_out(const std::string& text, char* to, std::size_t size) {
  if (size != 0) std::snprintf(to, size, "%s", text.c_str());
}

struct AtExit {
  ~AtExit() {
    if (number("FAKE_CUDA_REPORT", 0)) std::fprintf(stderr, "fake CUDA:\n%s", table().c_str());
  }
} at_exit;

}  // namespace

CUresult violation(const char* call, const std::string& what, CUresult code) {
  recorded().push_back(std::string(call) + ": " + what);
  return code;
}

std::string hex(CUdeviceptr address) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
  return text;
}

void made(Kind kind) { ++counts[static_cast<std::size_t>(kind)].made; }
void ended(Kind kind) { ++counts[static_cast<std::size_t>(kind)].ended; }

}  // namespace fake

extern "C" {

/// For tests: how often the rules were broken since the last call, and how, a line each.
std::size_t fake_cuda_violations(char* text, std::size_t size) {
  const fake::Lock lock(fake::lock_of_all());
  std::string lines;
  for (const std::string& line : fake::recorded()) lines += line + '\n';
  const std::size_t count = fake::recorded().size();
  fake::recorded().clear();
  fake::hand_out(lines, text, size);
  return count;
}

/// For tests: objects made and destroyed, a line for each kind.
void fake_cuda_objects(char* text, std::size_t size) {
  const fake::Lock lock(fake::lock_of_all());
  fake::hand_out(fake::table(), text, size);
}

/// For tests: live allocations, address ranges, handles, imports and mappings together, once all streams have nothing
/// to do; then their threads end.
std::size_t fake_cuda_live() {
  fake::Lock lock(fake::lock_of_all());
  auto& all = fake::world();
  fake::changed().wait(lock, [&] {
    for (const fake::Stream* stream : all.streams) {
      if (stream->done != stream->issued) return false;
    }
    return true;
  });
  ++all.rests;
  for (fake::Stream* stream : all.streams) stream->arrived.notify_all();
  return all.allocations.size() + all.ranges.size() + all.handles.size() + fake::live_imports();
}

/// For tests: live streams, memory pools and contexts together.
std::size_t fake_cuda_live_objects() {
  const fake::Lock lock(fake::lock_of_all());
  std::size_t count = fake::world().pools.size() + fake::world().streams.size();
  for (const fake::Context* context : fake::world().contexts) count += context->destroyed ? 0 : 1;
  return count;
}

/// For tests: live events.
std::size_t fake_cuda_live_events() {
  const fake::Lock lock(fake::lock_of_all());
  return fake::world().events.size();
}

}  // extern "C"
