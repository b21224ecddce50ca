// SPDX-License-Identifier: Apache-2.0
// Peers that send without end, more of them than the library's thread sees at a time. Whoever asks what has come back
// gets an answer.

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <list>
#include <span>
#include <utility>

#include "hostile_peer.hpp"
#include "ipc/channel/watcher.hpp"
#include "threads.hpp"

namespace weir::test {
namespace {

using namespace detail::channel;

/// A channel that has lent a buffer to a peer of which only the socket is there.
class FloodedChannel {
 public:
  FloodedChannel(const Buffer& buffer, const Stream& stream, std::pair<spi::UniqueFd, spi::UniqueFd> sockets)
      : socket_(std::move(sockets.first)), channel_(std::move(sockets.second)) {
    PacketWriter packet;
    EXPECT_TRUE(packet.add(Hello{protocol_version, 1}));
    say(packet.bytes());
    channel_.send(buffer, stream, {}, time_limit);
  }
  /// Put `packet` into the socket. Return false if that is full.
  bool say(std::span<const std::byte> packet) const {
    return ::send(socket_.get(), packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
  }

 private:
  spi::UniqueFd socket_;
  ipc::Channel channel_;
};

TEST(Flood, KeepsNobodyFromAnAnswer) {
  constexpr std::size_t peers = 110;  // the thread sees 64 at a time
  const Stream stream(host_device());
  const Buffer buffer = make_resource(host_device(), MemoryKind::shared, {.exportable = true})->allocate(4096, stream);
  std::list<FloodedChannel> channels;
  for (std::size_t i = 0; i < peers; ++i) channels.emplace_back(buffer, stream, ipc::Channel::make_sockets());
  PacketWriter farewell;
  ASSERT_TRUE(farewell.add(Bye{}));
  std::atomic<bool> over = false;
  std::list<Thread> floods;
  for (int i = 0; i < 3; ++i) {
    floods.emplace_back([&] {
      while (!over) {
        for (const FloodedChannel& channel : channels) (void)channel.say(farewell.bytes());
      }
    });
  }
  for (const FloodedChannel& channel : channels) {
    while (channel.say(farewell.bytes())) {
    }
  }
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(settle_channels());  // the watchdog ends it if there is no answer
  over = true;
  floods.clear();
}

}  // namespace
}  // namespace weir::test
