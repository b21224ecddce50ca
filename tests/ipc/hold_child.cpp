// SPDX-License-Identifier: Apache-2.0
// A holder, a writer or a reader of sets: hold_child hold <path>, hold_child <mode> <path> <device> <count> [<bytes>].
// Lines are said on descriptor 3.
//   hold    say "serves", serve
//   commit  add <count> tensors to the set "weights": the one at i is called "i" and has pattern(500 + i, i). With
//           <bytes>, it has pattern(bytes + i, i), and some of the tensors lie in several pages of a pool. Say "added",
//           await a line, commit, say "committed", await a line
//   open    open that set, check it, say "holds", await a line, check it again
// At the end it says "done". Whatever fails is said in the line, and the exit code is 1.

#include <cstddef>
#include <cstdint>
#include <string>

#include "bytes.hpp"
#include "loans.hpp"
#include "spawn.hpp"
#include "time_limits.hpp"
#include "weir/device.hpp"
#include "weir/held_set.hpp"
#include "weir/holder.hpp"
#include "weir/memory_resource.hpp"
#include "weir/pool.hpp"

namespace {

using namespace weir;
using namespace weir::test;

constexpr int lines = Child::socket_in_child;
const std::chrono::seconds limit = answer_limit();

std::string hold(const std::string& path) {
  ipc::Holder holder(path);
  write_line(lines, "serves");
  holder.run();
  return "done";
}

// The set that the arguments tell of.
struct Set {
  std::string path;
  std::size_t count;
  std::size_t bytes = 500;
  bool in_pages = false;

  [[nodiscard]] Bytes at(std::size_t i) const { return pattern(bytes + i, static_cast<std::uint32_t>(i)); }
};

std::string commit(const Set& set, const Stream& stream) {
  const KindInfo* found = nullptr;
  for (const KindInfo& known : stream.device().kinds()) {
    if (known.exportable && (known.paged || !set.in_pages)) found = &known;
  }
  if (!found) return "has no such memory";
  const ResourcePtr resource = make_resource(stream.device(), found->kind, {.exportable = true});
  const ResourcePtr from =
      set.in_pages ? make_pool(resource, {.segment_bytes = found->granularity, .exportable = true}) : resource;
  ipc::SetWriter writer(set.path, "weights");
  bool across = false;
  for (std::size_t i = 0; i < set.count; ++i) {
    const Bytes bytes = set.at(i);
    Buffer buffer = from->allocate(bytes.size(), stream);
    write(buffer, bytes, stream);
    writer.add(std::to_string(i), buffer.view(u8, {static_cast<std::int64_t>(bytes.size())}), stream);
    across |= set.in_pages && count_pages(buffer) > 1;
  }
  if (across != set.in_pages) return "has no tensor in several pages";
  write_line(lines, "added");
  (void)read_line(lines);
  (void)writer.commit(limit);
  write_line(lines, "committed");
  (void)read_line(lines);
  return "done";
}

std::string check(const ipc::HeldSet& held, const Set& set, const Stream& stream) {
  if (held.tensors.size() != set.count) return "has " + std::to_string(held.tensors.size()) + " tensors";
  for (std::size_t i = 0; i < set.count; ++i) {
    const auto& tensor = held.tensors.at(std::to_string(i));
    const auto same = same_bytes(read(tensor.buffer(), stream), set.at(i));
    if (!same) return "tensor " + std::to_string(i) + ": " + same.message();
  }
  return {};
}

std::string open(const Set& set, const Stream& stream) {
  ipc::SetReader reader(set.path, "weights");
  const ipc::HeldSet held = reader.open(stream, limit);
  if (std::string wrong = check(held, set, stream); !wrong.empty()) return wrong;
  write_line(lines, "holds");
  (void)read_line(lines);
  const std::string wrong = check(held, set, stream);
  return wrong.empty() ? "done" : "later: " + wrong;
}

std::string run(int argc, char** argv) {
  const std::string mode = argv[1];
  if (mode == "hold") return hold(argv[2]);
  if (argc != 5 && argc != 6) return "lacks arguments";
  const Stream stream(device(argv[3]));
  Set set{argv[2], std::stoul(argv[4])};
  if (argc == 6) {
    set.bytes = std::stoul(argv[5]);
    set.in_pages = true;
  }
  return mode == "commit" ? commit(set, stream) : open(set, stream);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  return run_child([&] { return run(argc, argv); });
}
