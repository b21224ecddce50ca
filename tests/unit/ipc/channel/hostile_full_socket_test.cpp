// SPDX-License-Identifier: Apache-2.0
// A channel whose peer does not read, and answers what it was never sent.

#include <array>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "hostile_peer.hpp"

namespace weir::test {
namespace {

using namespace detail::channel;
using ipc::Channel;

constexpr auto limit = time_limit;
constexpr std::chrono::milliseconds soon{5};

/// Send until the socket takes no more. Return how many buffers it has taken.
std::uint32_t fill_socket(Channel& channel, const Buffer& buffer, const Stream& stream) {
  for (std::uint32_t sent = 0;; ++sent) {
    try {
      channel.send(buffer, stream, {}, soon);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::timed_out) << error.what();
      return sent;
    }
  }
}

class HostilePeerThatDoesNotRead : public HostilePeer {
 protected:
  /// Have a thread send what the socket does not take. While it waits, say what `answer` makes of the number of buffers
  /// that were sent before, and a farewell, which ends the wait.
  template <class Answer>
  void answer_what_waits(Answer answer) {
    peer_.greet(65536);
    const Buffer buffer = shared();
    const std::uint32_t sent = fill_socket(channel_, buffer, stream_);
    ASSERT_EQ(channel_.stats().lent, sent);
    std::thread sender(
        [&] { EXPECT_ERROR(channel_.send(buffer, stream_, {}, limit), Errc::peer_gone, "closed its channel"); });
    while (channel_.stats().lent == sent) std::this_thread::yield();
    PacketWriter packet;
    answer(packet, sent);
    EXPECT_TRUE(packet.add(Bye{}));
    peer_.say(packet);
    sender.join();
    expect_cut_off("that were not sent");
  }
};

TEST_F(HostilePeerThatDoesNotRead, ReleasesNothingThatWasNotSent) {
  answer_what_waits([](PacketWriter& packet, std::uint32_t sent) {
    const std::array<std::uint64_t, 1> next{std::uint64_t{2} << 32U | sent};  // the last attempt had round 1 of the slot
    std::span<const std::uint64_t> rest = next;
    EXPECT_TRUE(packet.add(rest));
  });
}

TEST_F(HostilePeerThatDoesNotRead, TakesNothingThatWasNotSent) {
  answer_what_waits([](PacketWriter& packet, std::uint32_t sent) { EXPECT_TRUE(packet.add(Credit{sent + 1})); });
}

// Releases fill more than a packet, so there is no room for the buffer that is to be sent.
TEST_F(HostilePeer, KeepsNobodyThatOwesItMoreThanAPacketHolds) {
  constexpr std::uint64_t owed = 6000, at_once = 500;
  auto [one, other] = Channel::make_sockets();
  Peer peer(std::move(one));
  Channel channel(std::move(other), {.window = 65536});
  peer.greet(65536);
  const auto wire = honest();
  const auto file = reserved_memory_file(wire.segment_size);
  const std::array<int, 1> files{file.get()};
  std::vector<ipc::Parcel> held;
  for (std::uint64_t number = 0; number < owed;) {
    PacketWriter packet;
    if (number == 0) {
      ASSERT_TRUE(packet.add(Segment{1, detail::encode(wire)}));
    }
    const std::span<const int> beside = std::span(files).first(number == 0 ? 1 : 0);
    for (std::uint64_t i = 0; i < at_once; ++i) ASSERT_TRUE(packet.add(Grant{number++, 1, 0, 8, {}, {}}));
    peer.say(packet, beside);
    for (std::uint64_t i = 0; i < at_once; ++i) held.push_back(channel.receive(stream_, limit));
  }
  const Buffer buffer = shared();
  const std::uint32_t sent = fill_socket(channel, buffer, stream_);
  held.clear();
  EXPECT_EQ(channel.stats().borrowed, 0U);

  EXPECT_ERROR(channel.send(buffer, stream_, {}, soon), Errc::timed_out, "the peer does not read");

  std::thread sender([&] { channel.send(buffer, stream_, {}, limit); });
  for (std::uint32_t i = 0; i <= sent; ++i) (void)peer.next_grant();
  sender.join();
  EXPECT_EQ(peer.releases(), owed) << "they go before the buffer";
}

}  // namespace
}  // namespace weir::test
