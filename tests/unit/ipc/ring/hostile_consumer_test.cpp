// SPDX-License-Identifier: Apache-2.0
// A ring with a consumer that lends, of which only that one is cut off, or with one that blocks its own refusal.

#include <array>
#include <utility>

#include "base/file_closer.hpp"
#include "expect.hpp"
#include "ipc/channel/hostile_peer.hpp"
#include "ipc/packets.hpp"
#include "lingering_socket.hpp"
#include "weir/channel.hpp"
#include "weir/host.hpp"
#include "weir/ring.hpp"

namespace weir::test {
namespace {

using namespace detail::channel;

TEST(RingHostileConsumer, ThatLendsIsCutOff) {
  const Stream stream(host_device());
  const auto resource = host::make_shared_resource();
  ipc::RingProducer ring(resource, {.slots = 3, .slot_bytes = 16, .per_consumer = 1});
  auto sockets = ipc::Channel::make_sockets(), others = ipc::Channel::make_sockets();
  (void)ring.add_consumer(std::move(sockets.first));
  (void)ring.add_consumer(std::move(others.first));
  Peer lends(std::move(sockets.second));
  ipc::RingConsumer consumer(std::move(others.second));
  lends.greet();
  const auto file = memory_file(4096);
  const int number = file.get();
  PacketWriter packet;
  ASSERT_TRUE(packet.add(Segment{1, detail::encode(whole_segment(resource->allocate(16, stream), stream))}));
  lends.say(packet, {&number, 1});
  EXPECT_TRUE(lends.await_end());
  ring.publish(ring.acquire(stream, time_limit), stream);
  EXPECT_EQ(consumer.next(stream, time_limit).sequence, 0U);
}

// What it has sent by then is closed with its connection, and may be a file whose close blocks.
TEST(RingHostileConsumer, ThatIsRefusedIsNotWaitedFor) {
  LingeringSocket lingers;
  {
    const auto resource = host::make_shared_resource();
    ipc::RingProducer ring(resource,
                           {.slots = 2, .slot_bytes = 16, .policy = ipc::RingPolicy::drop_oldest, .per_consumer = 1});
    auto sockets = ipc::Channel::make_sockets(), others = ipc::Channel::make_sockets();
    (void)ring.add_consumer(std::move(others.first));
    {
      const spi::UniqueFd file = lingers.take();
      const int number = file.get();
      ASSERT_GT(detail::send_packet(sockets.second.get(), std::array<std::byte, 8>{}, {&number, 1}, false), 0);
    }
    EXPECT_ERROR((void)ring.add_consumer(std::move(sockets.first)), Errc::invalid_argument, "slots");
  }
  lingers.let_go();
  while (detail::files_to_close() != 0) detail::settle_closes();
}

// A caller that keeps a copy of its socket may try again.
TEST(RingHostileConsumer, ThatIsRefusedStaysConnected) {
  const auto resource = host::make_shared_resource();
  ipc::RingProducer ring(resource,
                         {.slots = 2, .slot_bytes = 16, .policy = ipc::RingPolicy::drop_oldest, .per_consumer = 1});
  auto sockets = ipc::Channel::make_sockets(), others = ipc::Channel::make_sockets();
  const auto first = ring.add_consumer(std::move(others.first));
  EXPECT_ERROR((void)ring.add_consumer(sockets.first.duplicate()), Errc::invalid_argument, "slots");
  while (detail::files_to_close() != 0) detail::settle_closes();
  ring.remove_consumer(first);
  (void)ring.add_consumer(std::move(sockets.first));
  const Stream stream(host_device());
  (void)ring.publish(ring.acquire(stream), stream);
  ipc::RingConsumer consumer(std::move(sockets.second));
  EXPECT_EQ(consumer.next(stream).buffer.size(), 16U);
}

}  // namespace
}  // namespace weir::test
