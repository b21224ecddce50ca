// SPDX-License-Identifier: Apache-2.0
// The other end of a ring: ring_child <mode> <device> <count>. The socket of the ring comes as the file of a descriptor
// on descriptor 3, where lines are said.
//   read     open the ring, say "open", receive <count> frames in a row, expect pattern(600, sequence)
//   hold     receive <count> frames, say "holds", and keep them until a line comes
//   make     be the producer: publish <count> frames of pattern(600, sequence), say "made", and wait for a line
// At the end it says "done". Whatever fails is said in the line, and the exit code is 1.

#include <string>
#include <utility>
#include <vector>

#include "bytes.hpp"
#include "spawn.hpp"
#include "time_limits.hpp"
#include "weir/device.hpp"
#include "weir/ipc.hpp"
#include "weir/memory_resource.hpp"
#include "weir/ring.hpp"

namespace {

using namespace weir;
using namespace weir::test;

constexpr int lines = Child::socket_in_child;
const std::chrono::seconds limit = answer_limit();
constexpr std::size_t bytes = 600;

spi::UniqueFd socket_of_ring() { return ipc::receive(lines, limit).fds().front().duplicate(); }

std::string read_all(std::size_t count, const Stream& stream) {
  ipc::RingConsumer consumer(socket_of_ring());
  consumer.open(stream, limit);
  write_line(lines, "open");
  for (std::uint32_t i = 0; i < count; ++i) {
    const ipc::Frame frame = consumer.next(stream, limit);
    if (frame.sequence != i || frame.missed != 0)
      return "frame " + std::to_string(frame.sequence) + " at " + std::to_string(i);
    const auto same = same_bytes(read(frame.buffer, stream), pattern(bytes, i));
    if (!same) return std::string("frame: ") + same.message();
  }
  return "done";
}

std::string hold(std::size_t count, const Stream& stream) {
  ipc::RingConsumer consumer(socket_of_ring());
  std::vector<ipc::Frame> held;
  for (std::size_t i = 0; i < count; ++i) held.push_back(consumer.next(stream, limit));
  write_line(lines, "holds");
  (void)read_line(lines);
  return "done";
}

std::string make(std::uint32_t count, const Stream& stream) {
  MemoryKind kind{};
  for (const KindInfo& known : stream.device().kinds()) {
    if (known.exportable) kind = known.kind;
  }
  ipc::RingProducer producer(make_resource(stream.device(), kind, {.exportable = true}),
                             {.slots = 4, .slot_bytes = bytes});
  (void)producer.add_consumer(socket_of_ring());
  for (std::uint32_t i = 0; i < count; ++i) {
    Buffer slot = producer.acquire(stream, limit);
    slot.copy_from(pattern(bytes, i), stream);
    stream.synchronize();  // a producer that is killed has left nothing unfinished
    (void)producer.publish(std::move(slot), stream);
  }
  write_line(lines, "made");
  (void)read_line(lines);
  return "done";
}

std::string run(const std::string& mode, const Stream& stream, std::size_t count) {
  if (mode == "read") return read_all(count, stream);
  if (mode == "hold") return hold(count, stream);
  return make(static_cast<std::uint32_t>(count), stream);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  return run_child([&] { return run(argv[1], Stream(device(argv[2])), std::stoul(argv[3])); });
}
