// SPDX-License-Identifier: Apache-2.0
// weir demo: the main job, end to end, on every device of this machine.

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "commands.hpp"
#include "demo_data.hpp"
#include "demo_sharing.hpp"
#include "labels.hpp"
#include "peer_process.hpp"
#include "table.hpp"

namespace weir::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

template <class F>
nanoseconds timed(F&& f) {
  const auto start = Clock::now();
  f();
  return Clock::now() - start;
}

/// Return the best time of three runs, the first of which warms up.
template <class F>
nanoseconds best(F&& f) {
  nanoseconds least = nanoseconds::max();
  for (int i = 0; i < 3; ++i) least = std::min(least, timed(f));
  return least;
}

/// One kind of memory of one device, with a buffer in it and a stream for it.
struct Memory {
  std::string name;
  Device device;
  KindInfo kind;
  Stream stream;
  ResourcePtr resource;
  Buffer buffer;
};

class Demo {
 public:
  void list_devices();
  void allocate_and_fill();
  void copy_across();
  void share(const Program& program);
  void share_by_name_ring_and_set(const Program& program);
  [[nodiscard]] int mismatches() const noexcept { return mismatches_; }

 private:
  void add(const Device& device, const KindInfo& kind, Table& table);
  std::string way(const Memory& memory, bool (*shares)(const SharedMemory&, const Program&), const Program& program);
  std::string checked(bool right) {
    mismatches_ += !right;
    return right ? "right" : "WRONG";
  }

  std::vector<Memory> memories_;
  int mismatches_ = 0;
};

void Demo::list_devices() {
  for (const BackendInfo& backend : backends()) {
    for (const Device& device : backend.devices)
      std::printf("%-10s %s\n", device.id().c_str(), std::string{device.name()}.c_str());
    if (backend.devices.empty())
      std::printf("%-10s not available: %s\n", backend.name.c_str(), backend.unavailable_because.c_str());
  }
}

void Demo::add(const Device& device, const KindInfo& kind, Table& table) {
  const std::string name = device.id() + " " + std::string{to_string(kind.kind)};
  try {
    const Stream stream{device};
    const ResourcePtr resource = make_resource(device, kind.kind);
    const nanoseconds allocation = best([&] { resource->allocate(demo_bytes, stream).close(); });
    Buffer buffer = resource->allocate(demo_bytes, stream);
    const nanoseconds filling = best([&] {
      buffer.fill(std::byte{42}, stream);
      stream.synchronize();
    });
    const bool right = holds(buffer, std::vector(demo_bytes, std::byte{42}), stream);
    table.add({name, time_text(allocation), time_text(filling), checked(right)});
    memories_.push_back({name, device, kind, stream, resource, std::move(buffer)});
  } catch (const std::exception& e) {
    ++mismatches_;
    table.add({name, std::string{"FAILED: "} + e.what()});
  }
}

void Demo::allocate_and_fill() {
  std::printf("\nallocate, fill, read back %s\n", size_text(demo_bytes).c_str());
  Table table{{"memory", "allocate", "fill", "bytes"}, 1};
  for (const Device& device : weir::devices())
    for (const KindInfo& kind : device.kinds()) add(device, kind, table);
  std::fputs(table.text(2).c_str(), stdout);
}

/// Return the time of a copy, or nothing when a byte was wrong afterwards.
std::optional<nanoseconds> copy(const Memory& from, Memory& to, unsigned seed) {
  const std::vector<std::byte> expected = pattern(seed, demo_bytes);
  Buffer source = from.resource->allocate(demo_bytes, from.stream);
  source.copy_from(expected, from.stream);
  to.stream.wait(from.stream.record());
  const nanoseconds time = best([&] {
    to.buffer.copy_from(source, to.stream);
    to.stream.synchronize();
  });
  return holds(to.buffer, expected, to.stream) ? std::optional{time} : std::nullopt;
}

void Demo::copy_across() {
  std::printf("\ncopy %s from each memory (rows) to each memory (columns), all bytes compared\n",
              size_text(demo_bytes).c_str());
  std::vector<std::string> header{""};
  for (const Memory& memory : memories_) header.push_back(memory.name);
  Table table{std::move(header), 1};
  unsigned seed = 1;
  for (const Memory& from : memories_) {
    std::vector<std::string> row{from.name};
    for (Memory& to : memories_) {
      try {
        const auto time = copy(from, to, seed++);
        row.push_back(time ? time_text(*time) : checked(false));
      } catch (const std::exception& e) {
        std::fprintf(stderr, "weir: %s to %s: %s\n", from.name.c_str(), to.name.c_str(), e.what());
        row.push_back(checked(false));
      }
    }
    table.add(std::move(row));
  }
  std::fputs(table.text(2).c_str(), stdout);
}

/// Have the peer open the buffer by its descriptor, check it and change it. Returns whether both processes saw the
/// right bytes.
bool visit(const Memory& memory, MemoryResource& resource, const PeerProcess& peer) {
  static const std::vector<std::byte> sent = pattern(shared_seed, demo_bytes);
  static const std::vector<std::byte> returned = pattern(changed_seed, demo_bytes);
  Buffer buffer = resource.allocate(demo_bytes, memory.stream);
  buffer.copy_from(sent, memory.stream);
  ipc::send(peer.socket(), buffer.ipc_descriptor(memory.stream));
  return peer.answer() == peer_agrees && holds(buffer, returned, memory.stream);
}

void Demo::share(const Program& program) {
  PeerProcess peer{program, {peer_command}, SOCK_STREAM, peer_socket};
  std::printf("\nshare %s with process %d: it opens the buffer by its descriptor, checks and changes it\n",
              size_text(demo_bytes).c_str(), static_cast<int>(peer.id()));
  Table table{{"memory", "first", "again", "bytes"}, 1};
  for (const Memory& memory : memories_) {
    if (!memory.kind.exportable) continue;
    try {
      const ResourcePtr resource = make_resource(memory.device, memory.kind.kind, {.exportable = true});
      bool right = true;
      const nanoseconds first = timed([&] { right = visit(memory, *resource, peer); });
      const nanoseconds again = timed([&] { right = visit(memory, *resource, peer) && right; });
      table.add({memory.name, time_text(first), time_text(again), checked(right)});
    } catch (const std::exception& e) {
      ++mismatches_;
      table.add({memory.name, std::string{"FAILED: "} + e.what()});
    }
  }
  if (!peer.finish()) {
    ++mismatches_;
    std::fputs("weir: the second process failed\n", stderr);
  }
  std::fputs(table.text(2).c_str(), stdout);
}

/// Return how long a way of sharing took, in words.
std::string Demo::way(const Memory& memory, bool (*shares)(const SharedMemory&, const Program&),
                      const Program& program) {
  bool right = false;
  const nanoseconds time = timed([&] { right = shares({memory.device, memory.kind.kind, memory.stream}, program); });
  return right ? time_text(time) : checked(false);
}

void Demo::share_by_name_ring_and_set(const Program& program) {
  std::printf(
      "\nshare with processes that start for it and compare every byte: a server's tensor by its name, %zu frames\n"
      "in a ring that 2 processes watch, a set that 'weir hold' keeps for a process that is killed\n",
      demo_frames);
  Table table{{"memory", "by name", "by ring", "by set"}, 1};
  for (const Memory& memory : memories_) {
    if (!memory.kind.exportable) continue;
    table.add({memory.name, way(memory, share_by_name, program), way(memory, share_by_ring, program),
               way(memory, share_by_set, program)});
  }
  std::fputs(table.text(2).c_str(), stdout);
}

}  // namespace

int demo(const Program& program) {
  Demo demo;
  demo.list_devices();
  demo.allocate_and_fill();
  demo.copy_across();
  demo.share(program);
  demo.share_by_name_ring_and_set(program);
  if (demo.mismatches() == 0) return std::puts("\nevery byte was right"), 0;
  return std::printf("\n%d mismatches\n", demo.mismatches()), 1;
}

}  // namespace weir::cli
