// SPDX-License-Identifier: Apache-2.0
// A connection whose process can start no thread: it lends nothing that nobody would take back, and what it has borrowed
// is given back all the same.

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "inject/system_calls.hpp"
#include "ipc/channel/link.hpp"
#include "ipc/channel/links.hpp"
#include "loop.hpp"
#include "sink.hpp"
#include "unit/ipc/channel/hostile_peer.hpp"

namespace weir::test {
namespace {

using namespace detail::channel;

class ChannelWithoutThread : public HostilePeer {
 protected:
  std::shared_ptr<Link> make_channel() {
    auto [mine, theirs] = ipc::Channel::make_sockets();
    far_ = std::make_unique<Peer>(std::move(theirs));
    auto link = make_link(std::move(mine), 16);
    far_->greet();
    link->look();
    return link;
  }
  void give_back(std::uint64_t number) {
    std::span<const std::uint64_t> rest(&number, 1);
    PacketWriter packet;
    EXPECT_TRUE(packet.add(rest));
    far_->say(packet);
  }

  void lend_twice() {
    const auto wire = honest();
    const auto file = reserved_memory_file(wire.segment_size);
    const std::array<int, 1> files{file.get()};
    PacketWriter packet;
    ASSERT_TRUE(packet.add(Segment{1, detail::encode(wire)}));
    for (const std::uint64_t number : {1, 2}) ASSERT_TRUE(packet.add(Grant{number, 1, 0, 8, {}, {}}));
    far_->say(packet, files);
  }

  FailingSystemCalls injector_{host_device()};
  std::unique_ptr<Peer> far_;
};

// The peer gives back what was sent, and no call of the channel's user follows.
TEST_F(ChannelWithoutThread, WhatIsLentComesBackByItself) {
  constexpr std::uint64_t first_grant = std::uint64_t{1} << 32U;
  constexpr std::size_t most = 100;
  std::size_t refused = 0;
  bool more = true;
  for (std::size_t nth = 1; nth < most && more; ++nth) {
    const auto link = make_channel();
    const Buffer buffer = shared();
    const Outgoing one{&buffer, {}};
    injector_.settle();  // no thread is there
    (void)take_reports();
    injector_.arm(nth, 0);
    bool sent = false;
    std::string why;
    try {
      sent = link->send({&one, 1}, stream_, Deadline(time_limit)) == 1;
    } catch (const Error& error) {
      why = error.what();
    }
    const auto hit = injector_.disarm();
    more = hit.has_value();
    SCOPED_TRACE(more ? hit->call : "none");
    if (sent) {
      give_back(first_grant);
      EXPECT_TRUE(eventually([&] { return link->stats().lent == 0; }));
    } else {
      ++refused;
      ASSERT_TRUE(hit.has_value()) << why;
      EXPECT_NE(why.find(hit->names.empty() ? hit->call : hit->names), std::string::npos) << why;
      EXPECT_EQ(link->stats().lent, 0U);
    }
    (void)take_reports();
  }
  EXPECT_FALSE(more) << "it never ends";
  EXPECT_GE(refused, 3U) << "epoll_create1, eventfd and the thread were tried";
}

TEST_F(ChannelWithoutThread, WhatIsBorrowedIsGivenBackAtOnce) {
  const auto link = make_channel();
  lend_twice();
  Buffer first = link->receive(stream_, Deadline(time_limit)).buffer;
  const Buffer second = link->receive(stream_, Deadline(time_limit)).buffer;
  injector_.settle();
  injector_.arm(1, 0);
  first.close();  // else told together with the second one
  const auto hit = injector_.disarm();
  ASSERT_TRUE(hit.has_value());
  EXPECT_EQ(far_->await_releases(), 1U) << hit->call;
  EXPECT_EQ(take_reports().size(), 1U);
}

// Whatever call fails, and whether or not the peer's buffers are closed behind the channel.
TEST_F(ChannelWithoutThread, AClosedConnectionEndsByItself) {
  constexpr std::size_t most = 100;
  for (const bool borrows : {false, true}) {
    std::size_t nth = 1;
    for (bool more = true; more && nth < most; ++nth) {
      const auto link = make_channel();
      Buffer first, second;
      if (borrows) {
        lend_twice();
        first = link->receive(stream_, Deadline(time_limit)).buffer;
        second = link->receive(stream_, Deadline(time_limit)).buffer;
      }
      injector_.settle();  // no thread is there
      more = false;
      for (const auto& ends :
           {std::function([&] { link->close(); }), {[&] { first.close(); }}, {[&] { second.close(); }}}) {
        injector_.arm(nth, 0);
        ends();
        more = injector_.disarm().has_value() || more;
      }
      EXPECT_TRUE(far_->await_end()) << "call " << nth << (borrows ? ", with buffers" : "");
      (void)take_reports();
    }
    EXPECT_GT(nth, 4U) << "the packet, epoll_create1, eventfd and the thread were tried";
    EXPECT_LT(nth, most) << "it never ends";
  }
}

}  // namespace
}  // namespace weir::test
