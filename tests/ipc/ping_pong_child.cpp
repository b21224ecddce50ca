// SPDX-License-Identifier: Apache-2.0
// The player of the odd rounds: ping_pong_child <device> <rounds> <seed>. The socket of the channel comes as the file
// of a descriptor on descriptor 3. It gives the buffer itself back, or, where memory of a peer cannot be lent again, a
// buffer of its own behind the same work. At the end it says on descriptor 3 what went wrong, or "done".

#include <chrono>
#include <string>

#include "channel_processes.hpp"
#include "ping_pong.hpp"
#include "time_limits.hpp"
#include "weir/spi/segment.hpp"

namespace {

using namespace weir;
using namespace weir::test;

const std::chrono::seconds limit = answer_limit();

std::string play(const Stream& stream, std::uint64_t rounds, std::uint64_t seed) {
  ipc::Channel channel = channel_to_parent();
  PingPongPlayer player(stream, seed);
  const Buffer token =
      make_resource(host_device(), MemoryKind::shared, {.exportable = true})->allocate(PingPongPlayer::bytes, stream);
  for (std::uint64_t round = 1; round < rounds; round += 2) {
    ipc::Parcel parcel = channel.receive(stream, limit);
    if (parcel.payload != payload_of(round)) return "round " + std::to_string(round) + " has another payload";
    player.take_turn(parcel.buffer, round);
    const bool passes_on = parcel.buffer.location().segment->exportable;
    channel.send(passes_on ? parcel.buffer : token, stream, payload_of(round + 1), limit);
  }
  stream.synchronize();
  return player.wrong().empty() ? "done" : "there, " + player.wrong();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  return run_child([&] { return play(Stream(device(argv[1])), std::stoull(argv[2]), std::stoull(argv[3])); });
}
