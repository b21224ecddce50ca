// SPDX-License-Identifier: Apache-2.0
// A peer says which memory it lends. What it says decides nothing about other memory, and nothing for other peers.

#include <array>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

#include "hostile_peer.hpp"

namespace weir::test {
namespace {

using namespace detail::channel;
using ipc::Channel;

constexpr auto limit = time_limit;

class HostileIdentity : public HostilePeer {
 protected:
  HostileIdentity() : HostileIdentity(Channel::make_sockets()) {}

  /// Return a descriptor of the whole segment of the buffer, as it goes to peers.
  detail::WireDescriptor described(const Buffer& buffer) {
    const auto real = buffer.ipc_descriptor(stream_);
    auto wire = detail::decode(real.bytes());
    wire.has_lease = wire.has_ready = false;
    wire.offset = 0;
    wire.size = wire.segment_size;
    return wire;
  }
  /// Have the peer lend this file, and say that it is that memory. Return what the channel receives.
  Buffer lent_as(Peer& peer, Channel& channel, const detail::WireDescriptor& wire, const spi::UniqueFd& file) {
    peer.greet();
    PacketWriter packet;
    EXPECT_TRUE(packet.add(Segment{1, detail::encode(wire)}));
    EXPECT_TRUE(packet.add(Grant{1, 1, 0, wire.segment_size, {}, {}}));
    const std::array<int, 1> files{file.get()};
    peer.say(packet, files);
    return channel.receive(stream_, limit).buffer;
  }
  void expect_known(std::size_t segments) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (to_.stats().known != segments && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(to_.stats().known, segments);
  }

  Channel to_, next_;  // to an honest process, and what that one has

 private:
  explicit HostileIdentity(std::pair<spi::UniqueFd, spi::UniqueFd> sockets)
      : to_(std::move(sockets.first)), next_(std::move(sockets.second)) {}
};

TEST_F(HostileIdentity, OfMemoryThatItWasLentIsNotBelieved) {
  Buffer own = shared(4096);
  own.fill(std::uint8_t{'M'}, stream_);
  const auto wire = described(own);
  const auto file = reserved_memory_file(wire.segment_size);
  Buffer theirs = lent_as(peer_, channel_, wire, file);
  theirs.fill(std::uint8_t{'E'}, stream_);

  EXPECT_NO_THROW(own.copy_to(theirs, stream_)) << "the two share no memory";
  theirs.fill(std::uint8_t{'E'}, stream_);
  to_.send(theirs, stream_, {}, limit);
  to_.send(own, stream_, {}, limit);
  EXPECT_BYTES(read(next_.receive(stream_, limit).buffer, stream_), repeat(4096, 'E'));
  EXPECT_BYTES(read(next_.receive(stream_, limit).buffer, stream_), repeat(4096, 'M'));

  expect_known(2);
  peer_.leave();
  theirs.close();
  EXPECT_ERROR(channel_.receive(stream_, limit), Errc::peer_gone, "");
  expect_known(1);
  to_.send(own, stream_, {}, limit);
  EXPECT_BYTES(read(next_.receive(stream_, limit).buffer, stream_), repeat(4096, 'M'));
  EXPECT_EQ(to_.stats().known, 1U) << "the end of the peer's memory was taken for the end of another";
}

// The same memory came over two connections. It is passed on as two segments, and each has its own end.
TEST_F(HostileIdentity, EndsWithItsConnectionAlone) {
  auto sockets = Channel::make_sockets();
  Peer other(std::move(sockets.first));
  Channel from(std::move(sockets.second));
  const auto wire = honest();
  const auto file = reserved_memory_file(wire.segment_size);
  Buffer one = lent_as(peer_, channel_, wire, file), two = lent_as(other, from, wire, file);
  EXPECT_ERROR(one.copy_to(two, stream_), Errc::invalid_argument, "overlap");
  to_.send(one, stream_, {}, limit);
  to_.send(two, stream_, {}, limit);
  (void)next_.receive(stream_, limit);
  const auto kept = next_.receive(stream_, limit);
  expect_known(2);
  peer_.leave();
  one.close();
  EXPECT_ERROR(channel_.receive(stream_, limit), Errc::peer_gone, "");
  expect_known(1);
  to_.send(two, stream_, {}, limit);
  EXPECT_BYTES(read(next_.receive(stream_, limit).buffer, stream_), repeat(wire.segment_size, 0));
  EXPECT_EQ(to_.stats().known, 1U);
}

}  // namespace
}  // namespace weir::test
