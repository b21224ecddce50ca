// SPDX-License-Identifier: Apache-2.0
// What a ring reports. The sink is the user's, and may call the ring of which it is told.

#include <gtest/gtest.h>

#include <chrono>
#include <utility>

#include "on_report.hpp"
#include "refusing_device.hpp"
#include "weir/channel.hpp"
#include "weir/host.hpp"
#include "weir/ring.hpp"

namespace weir::test {
namespace {

constexpr std::chrono::seconds limit{30};

TEST(RingReports, LetTheSinkPublish) {
  const Stream stream(host_device());
  ipc::RingProducer ring(host::make_shared_resource(), {.slots = 4, .slot_bytes = 16});
  auto sockets = ipc::Channel::make_sockets();
  (void)ring.add_consumer(std::move(sockets.first));
  ipc::RingConsumer consumer(std::move(sockets.second));
  consumer.open(stream, limit);
  const RefusedStream refused;
  Buffer frame = ring.acquire(refused.get(), limit);
  const OnReport taken([&] { ring.publish(ring.acquire(stream, limit), stream); });
  ring.publish(std::move(frame), refused.get());
  EXPECT_EQ(taken.count(), 1);
  for (std::uint64_t i = 0; i < 2; ++i) EXPECT_EQ(consumer.next(stream, limit).sequence, i);
}

}  // namespace
}  // namespace weir::test
