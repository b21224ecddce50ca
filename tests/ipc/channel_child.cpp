// SPDX-License-Identifier: Apache-2.0
// The other end of a channel: channel_child <mode> <device> <count>. The socket of the channel comes as the file of a
// descriptor on descriptor 3, where lines are said.
//   rewrite  receive <count> buffers, expect pattern(size, seed) with the seed from the payload, write seed + 1, close
//   read     receive <count> buffers that cannot be written, whose bytes begin with the payload, and try to write them
//   hold     receive <count> buffers, say "holds", and keep them until the other end closes
//   late     send as many as make does, behind a gate that a line opens; say "sent" before
//   make     send <count> buffers: the one at i has pattern(500 + i, i)
// At the end it says "done". Whatever fails is said in the line, and the exit code is 1.

#include <string>
#include <utility>
#include <vector>

#include "bytes.hpp"
#include "channel_processes.hpp"
#include "gate.hpp"
#include "spawn.hpp"
#include "time_limits.hpp"
#include "weir/channel.hpp"
#include "weir/device.hpp"
#include "weir/memory_resource.hpp"

namespace {

using namespace weir;
using namespace weir::test;

constexpr int lines = Child::socket_in_child;
const std::chrono::seconds limit = answer_limit();

std::string rewrite(ipc::Channel& channel, std::size_t count, const Stream& stream) {
  for (std::size_t i = 0; i < count; ++i) {
    ipc::Parcel parcel = channel.receive(stream, limit);
    const auto seed = std::to_integer<std::uint32_t>(parcel.payload.at(0));
    const std::size_t bytes = parcel.buffer.size();
    const auto same = same_bytes(read(parcel.buffer, stream), pattern(bytes, seed));
    if (!same) return std::string("before: ") + same.message();
    write(parcel.buffer, pattern(bytes, seed + 1), stream);
    parcel.buffer.close();
  }
  stream.synchronize();
  return "done";
}

std::string read_only(ipc::Channel& channel, std::size_t count, const Stream& stream) {
  for (std::size_t i = 0; i < count; ++i) {
    ipc::Parcel parcel = channel.receive(stream, limit);
    const auto same = same_bytes(part(read(parcel.buffer, stream), 0, parcel.payload.size()), parcel.payload);
    if (!same) return std::string("before: ") + same.message();
    if (!parcel.buffer.is_read_only()) return "it says that it can be written";
    try {
      parcel.buffer.fill(std::uint8_t{1}, stream);
      return "it can be written";
    } catch (const Error& error) {
      if (error.code() != Errc::permission_denied) throw;
    }
  }
  return "done";
}

std::string hold(ipc::Channel& channel, std::size_t count, const Stream& stream) {
  std::vector<ipc::Parcel> held;
  for (std::size_t i = 0; i < count; ++i) held.push_back(channel.receive(stream, limit));
  write_line(lines, "holds");
  (void)read_line(lines);
  return "done";
}

// The memory is new for each buffer, so that the other end has many segments to open.
void send_all(ipc::Channel& channel, std::size_t count, const Stream& stream) {
  MemoryKind kind{};
  for (const KindInfo& known : stream.device().kinds()) {
    if (known.exportable) kind = known.kind;
  }
  const ResourcePtr resource = make_resource(stream.device(), kind, {.exportable = true});
  for (std::size_t i = 0; i < count; ++i) {
    Buffer buffer = resource->allocate(500 + i, stream);
    write(buffer, pattern(500 + i, static_cast<std::uint32_t>(i)), stream);
    channel.send(buffer, stream, {}, limit);
  }
}

std::string make(ipc::Channel& channel, std::size_t count, const Stream& stream) {
  send_all(channel, count, stream);
  stream.synchronize();  // what is not complete when the process ends never will be
  return "done";
}

std::string late(ipc::Channel& channel, std::size_t count, const Stream& stream) {
  Gate gate;
  gate.hold(stream);
  send_all(channel, count, stream);
  write_line(lines, "sent");
  (void)read_line(lines);
  gate.open();
  stream.synchronize();
  return "done";
}

std::string run(const std::string& mode, const Stream& stream, std::size_t count) {
  ipc::Channel channel = channel_to_parent();
  if (mode == "rewrite") return rewrite(channel, count, stream);
  if (mode == "read") return read_only(channel, count, stream);
  if (mode == "hold") return hold(channel, count, stream);
  if (mode == "late") return late(channel, count, stream);
  return make(channel, count, stream);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  return run_child([&] { return run(argv[1], Stream(device(argv[2])), std::stoul(argv[3])); });
}
