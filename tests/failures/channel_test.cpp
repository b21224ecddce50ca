// SPDX-License-Identifier: Apache-2.0
// No memory where a connection has nobody to throw at: what came back ends without locks, and its thread goes on.
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <utility>

#include "inject/allocations.hpp"
#include "ipc/channel/link.hpp"
#include "ipc/channel/links.hpp"
#include "ipc/channel/messages.hpp"
#include "ipc/packets.hpp"
#include "loop.hpp"
#include "sink.hpp"
#include "weir/channel.hpp"
#include "weir/memory_resource.hpp"

namespace weir::test {
namespace {

using namespace detail::channel;

constexpr std::size_t most = 100;  // allocations of one call: more means that its loop does not end

/// Is told of its link on the thread of the channels. The next allocation there fails, once, if it was asked to.
class Observer final : public LinkObserver {
 public:
  explicit Observer(FailingAllocations& injector) : injector_(injector) {}
  void link_changed() noexcept override {
    if (fails.exchange(false)) injector_.arm(1, 0);
    ++calls;
    calls.notify_all();
    holds.wait(true);
  }
  void await(int count) {
    for (int seen = calls; seen < count; seen = calls) calls.wait(seen);
  }
  std::atomic<bool> fails{false}, holds{false};
  std::atomic<int> calls{0};

 private:
  FailingAllocations& injector_;
};

// Whatever failed, the connection serves as if the call had not been made.
TEST(SendWithoutMemory, CanBeRepeated) {
  FailingAllocations injector(host_device());
  const Stream stream(host_device());
  const auto resource = make_resource(host_device(), MemoryKind::shared, {.exportable = true});
  std::size_t refused = 0;
  bool more = true;
  for (std::size_t nth = 1; more; ++nth) {
    ASSERT_LT(nth, most);
    auto [mine, theirs] = ipc::Channel::make_sockets();
    ipc::Channel here(std::move(mine)), there(std::move(theirs));
    const Buffer fresh = resource->allocate(16, stream);
    injector.arm(nth, 0);
    bool sent = false;
    try {
      here.send(fresh, stream);
      sent = true;
    } catch (const std::bad_alloc&) {
      ++refused;
    } catch (const Error&) {
      ++refused;
    }
    more = injector.disarm().has_value();
    SCOPED_TRACE("allocation " + std::to_string(nth));
    (void)take_reports();
    if (!sent) {
      EXPECT_NO_THROW(here.send(fresh, stream));
    }
    std::size_t got = 0;
    EXPECT_NO_THROW(got = there.receive(stream, std::chrono::seconds{30}).buffer.size());
    EXPECT_EQ(got, 16U);
  }
  EXPECT_GE(refused, 3U);
}

class ChannelWithoutMemory : public testing::Test {
 protected:
  /// A link, and the socket of its peer, which has greeted.
  struct Line {
    Line() {
      auto [mine, theirs] = ipc::Channel::make_sockets();
      link = make_link(std::move(mine), 256);
      peer = std::move(theirs);
      PacketWriter packet;
      EXPECT_TRUE(packet.add(Hello{protocol_version, 256}));
      say(packet);
    }
    void say(const PacketWriter& packet) const {
      EXPECT_EQ(detail::send_packet(peer.get(), packet.bytes(), {}, true),
                static_cast<std::ptrdiff_t>(packet.bytes().size()));
    }
    std::shared_ptr<Link> link;
    spi::UniqueFd peer;
  };

  FailingAllocations injector_{host_device()};
  const Stream stream_{host_device()};
};

TEST_F(ChannelWithoutMemory, WhatComesBackEndsWithoutLocks) {
  const auto busy = std::make_shared<Observer>(injector_);  // keeps the thread of the channels from reading
  busy->holds = true;
  const Line other;
  other.link->observe(busy);
  busy->await(1);
  const auto resource = make_resource(host_device(), MemoryKind::shared, {.exportable = true});
  bool refused = true;
  for (std::size_t nth = 1; nth < most && refused; ++nth) {
    SCOPED_TRACE(nth);
    const Line line;
    line.link->look();
    Buffer buffer = resource->allocate(100, stream_);
    const Outgoing one{&buffer, {}};
    EXPECT_EQ(line.link->send({&one, 1}, stream_, Deadline(std::chrono::seconds{20})), 1U);
    buffer.close();  // the last handle is the loan, so what comes back is the end of the segment
    const std::uint64_t number = std::uint64_t{1} << 32U;
    std::span<const std::uint64_t> rest(&number, 1);
    PacketWriter packet;
    ASSERT_TRUE(packet.add(rest));
    line.say(packet);
    injector_.arm(nth, 0);
    try {
      line.link->look();
    } catch (const std::bad_alloc&) {  // what there was no memory for is still to be read
    }
    refused = injector_.disarm().has_value();
    EXPECT_TRUE(refused || take_reports().empty());
    (void)take_reports();  // a thread may not have been asked to attend to the connection
    line.link->look();
    EXPECT_FALSE(line.link->capacity().ended);
    EXPECT_EQ(line.link->stats().lent, 0U);
    EXPECT_EQ(resource->stats().live_buffers, 0U);
  }
  EXPECT_FALSE(refused) << "it never ends";
  busy->holds = false;
  busy->holds.notify_all();
}

TEST_F(ChannelWithoutMemory, AClosedConnectionEnds) {
  const auto observer = std::make_shared<Observer>(injector_);
  const Line line;
  line.link->observe(observer);
  observer->await(1);
  observer->fails = true;
  line.link->close();
  pollfd end{line.peer.get(), POLLRDHUP, 0};
  EXPECT_EQ(::poll(&end, 1, 30'000), 1);
  (void)injector_.disarm();
}

TEST_F(ChannelWithoutMemory, AConnectionThatCannotBeWatchedIsReported) {
  const auto observer = std::make_shared<Observer>(injector_);
  const Line line;
  observer->fails = true;
  line.link->observe(observer);
  const auto reports = await_reports(1);
  (void)injector_.disarm();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].where, "channel: epoll_ctl");
  PacketWriter packet;
  ASSERT_TRUE(packet.add(Bye{}));
  line.say(packet);
  int seen = observer->calls;  // the thread has tried again by itself, as often as it has had the time for
  for (; !line.link->capacity().left; seen = observer->calls) observer->await(seen + 1);
}

}  // namespace
}  // namespace weir::test
