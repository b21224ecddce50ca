// SPDX-License-Identifier: Apache-2.0
// The other end of a server: names_child <mode> <device> <path>. Lines are said on descriptor 3.
//   rewrite  get "tensor", expect floats 0, 1, 2, … of shape 3 × 5, add 1 to each, give it back, say "done"
//   hold     get "tensor" three times, say "holds", and keep them until it is told to go on
//   serve    publish "tensor" as above at the path, say "serves", and go on until it is told to end
// Whatever fails is said in the line, and the exit code is 1.

#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "bytes.hpp"
#include "spawn.hpp"
#include "time_limits.hpp"
#include "weir/client.hpp"
#include "weir/device.hpp"
#include "weir/memory_resource.hpp"
#include "weir/server.hpp"

namespace {

using namespace weir;
using namespace weir::test;

constexpr int lines = Child::socket_in_child;
const std::chrono::seconds limit = answer_limit();

Bytes numbers(float first) {
  std::vector<float> all(15);
  std::iota(all.begin(), all.end(), first);
  const auto bytes = std::as_bytes(std::span(all));
  return {bytes.begin(), bytes.end()};
}

std::string rewrite(const std::string& path, const Stream& stream) {
  ipc::Client client(path, limit);
  Tensor tensor = client.get("tensor", stream, limit);
  if (tensor.layout().dtype != f32 || tensor.layout().shape != std::vector<std::int64_t>{3, 5}) return "another layout";
  const auto same = same_bytes(read(tensor.buffer(), stream), numbers(0));
  if (!same) return std::string("before: ") + same.message();
  write(tensor.buffer(), numbers(1), stream);
  stream.synchronize();
  return "done";
}

std::string hold(const std::string& path, const Stream& stream) {
  ipc::Client client(path, limit);
  std::vector<Tensor> held;
  for (int i = 0; i < 3; ++i) held.push_back(client.get("tensor", stream, limit));
  write_line(lines, "holds");
  (void)read_line(lines);
  return "done";
}

std::string serve(const std::string& path, const Stream& stream) {
  MemoryKind kind{};
  for (const KindInfo& known : stream.device().kinds()) {
    if (known.exportable) kind = known.kind;
  }
  Buffer buffer = make_resource(stream.device(), kind, {.exportable = true})->allocate(60, stream);
  write(buffer, numbers(0), stream);
  ipc::Server server(path);
  server.publish("tensor", buffer.view(f32, {3, 5}), stream);
  write_line(lines, "serves");
  (void)read_line(lines);
  return "done";
}

std::string run(const std::string& mode, const Stream& stream, const std::string& path) {
  if (mode == "rewrite") return rewrite(path, stream);
  if (mode == "hold") return hold(path, stream);
  return serve(path, stream);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  return run_child([&] { return run(argv[1], Stream(device(argv[2])), argv[3]); });
}
