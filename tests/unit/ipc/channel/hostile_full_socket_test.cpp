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

}  // namespace
}  // namespace weir::test
