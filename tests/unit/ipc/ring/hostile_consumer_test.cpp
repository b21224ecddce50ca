// SPDX-License-Identifier: Apache-2.0
// A ring with a consumer that lends. Only that one is cut off.

#include <utility>

#include "ipc/channel/hostile_peer.hpp"
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

}  // namespace
}  // namespace weir::test
