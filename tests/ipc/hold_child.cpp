// SPDX-License-Identifier: Apache-2.0
// A holder, a writer or a reader of sets: hold_child hold <path>, hold_child <mode> <path> <device> <count>.
// Lines are said on descriptor 3.
//   hold    say "serves", serve
//   commit  add <count> tensors to the set "weights": the one at i is called "i" and has pattern(500 + i, i). Say
//           "added", await a line, commit, say "committed", await a line
//   open    open that set, check it, say "holds", await a line, check it again
// At the end it says "done". Whatever fails is said in the line, and the exit code is 1.

#include <string>

#include "bytes.hpp"
#include "spawn.hpp"
#include "weir/device.hpp"
#include "weir/held_set.hpp"
#include "weir/holder.hpp"
#include "weir/memory_resource.hpp"

namespace {

using namespace weir;
using namespace weir::test;

constexpr int lines = Child::socket_in_child;
constexpr std::chrono::seconds limit{30};

std::string hold(const std::string& path) {
  ipc::Holder holder(path);
  write_line(lines, "serves");
  holder.run();
  return "done";
}

std::string commit(const std::string& path, const Stream& stream, std::size_t count) {
  MemoryKind kind{};
  for (const KindInfo& known : stream.device().kinds()) {
    if (known.exportable) kind = known.kind;
  }
  const ResourcePtr resource = make_resource(stream.device(), kind, {.exportable = true});
  ipc::SetWriter writer(path, "weights");
  for (std::size_t i = 0; i < count; ++i) {
    Buffer buffer = resource->allocate(500 + i, stream);
    write(buffer, pattern(500 + i, static_cast<std::uint32_t>(i)), stream);
    writer.add(std::to_string(i), buffer.view(u8, {static_cast<std::int64_t>(500 + i)}), stream);
  }
  write_line(lines, "added");
  (void)read_line(lines);
  (void)writer.commit(limit);
  write_line(lines, "committed");
  (void)read_line(lines);
  return "done";
}

std::string check(const ipc::HeldSet& set, const Stream& stream, std::size_t count) {
  if (set.tensors.size() != count) return "has " + std::to_string(set.tensors.size()) + " tensors";
  for (std::size_t i = 0; i < count; ++i) {
    const auto& tensor = set.tensors.at(std::to_string(i));
    const auto same = same_bytes(read(tensor.buffer(), stream), pattern(500 + i, static_cast<std::uint32_t>(i)));
    if (!same) return "tensor " + std::to_string(i) + ": " + same.message();
  }
  return {};
}

std::string open(const std::string& path, const Stream& stream, std::size_t count) {
  ipc::SetReader reader(path, "weights");
  const ipc::HeldSet set = reader.open(stream, limit);
  if (std::string wrong = check(set, stream, count); !wrong.empty()) return wrong;
  write_line(lines, "holds");
  (void)read_line(lines);
  const std::string wrong = check(set, stream, count);
  return wrong.empty() ? "done" : "later: " + wrong;
}

std::string run(int argc, char** argv) {
  const std::string mode = argv[1];
  if (mode == "hold") return hold(argv[2]);
  if (argc != 5) return "lacks arguments";
  const Stream stream(device(argv[3]));
  return mode == "commit" ? commit(argv[2], stream, std::stoul(argv[4])) : open(argv[2], stream, std::stoul(argv[4]));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  return run_child([&] { return run(argc, argv); });
}
