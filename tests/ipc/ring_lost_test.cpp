// SPDX-License-Identifier: Apache-2.0
// Rings: frames whose work will never be complete, because it waited for a process that was killed.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "channel_processes.hpp"
#include "ring_fixture.hpp"
#include "sink.hpp"

namespace weir::test {
namespace {

using ipc::RingConsumer;
using ipc::RingProducer;

/// Has a stream that waits for another process, until that one is killed.
class RingLosses : public Rings {
 protected:
  void SetUp() override {
    Rings::SetUp();
    ASSERT_EQ(child.line(), "sent");
    waited_for.emplace(channel.receive(doomed, limit));
  }
  void lose() {
    const Event end = doomed.record();
    child.kill();
    ASSERT_EQ(end.wait(limit), WaitStatus::lost);
  }
  static std::size_t of_the_ring(const std::vector<Reported>& reports) {
    return static_cast<std::size_t>(
        std::ranges::count_if(reports, [](const Reported& one) { return one.where == "ipc::RingProducer"; }));
  }

  ChannelChild child{"late", device(), 1};
  ipc::Channel channel = child.connect();
  const Stream doomed{device()};
  std::optional<ipc::Parcel> waited_for;
};
WEIR_FOR_EACH_EXPORTABLE(RingLosses);

TEST_P(RingLosses, AFrameThatIsLostKeepsNobodyWaiting) {
  RingProducer producer(resource, {.slots = 6, .slot_bytes = bytes});
  RingConsumer one = join_open(producer), two = join_open(producer);
  publish(producer, 0, stream);
  publish(producer, 1, stream);
  std::vector<ipc::Frame> held;
  for (RingConsumer* consumer : {&one, &two}) {
    for (int i = 0; i < 2; ++i) held.push_back(consumer->next(stream, limit));
  }
  EXPECT_EQ(producer.publish(producer.acquire(stream, limit), doomed), 2U);
  publish(producer, 3, stream);
  EXPECT_EQ(producer.stats().waiting, 2U);
  lose();
  held.clear();
  for (RingConsumer* consumer : {&one, &two}) expect_frame(consumer->next(stream, limit), 3, 1);
  EXPECT_EQ(of_the_ring(await_reports(3)), 1U) << "beside the point, and the stream that waited for it";
  const auto stats = producer.stats();
  EXPECT_EQ(stats.waiting, 0U);
  EXPECT_EQ(stats.dropped, 1U);
  for (const auto& consumer : stats.consumers) EXPECT_EQ(consumer.missed, 1U);
  EXPECT_TRUE(producer.drain(limit));
  for (std::uint32_t i = 4; i < 20; ++i) {
    publish(producer, i, stream);
    for (RingConsumer* consumer : {&one, &two}) expect_frame(consumer->next(stream, limit), i, 0);
  }
  EXPECT_EQ(free_slots(producer, 6), 6U);
}

TEST_P(RingLosses, AStreamThatIsLostPublishesNothing) {
  RingProducer producer(resource, {.slots = 2, .slot_bytes = bytes});
  RingConsumer consumer = join_open(producer);
  lose();
  EXPECT_EQ(await_reports(2).size(), 2U);
  EXPECT_ERROR(producer.publish(producer.acquire(stream, limit), doomed), Errc::peer_gone, "is lost");
  publish(producer, 0, stream);
  expect_frame(consumer.next(stream, limit), 0, 0);
  EXPECT_EQ(free_slots(producer, 2), 2U);
}

}  // namespace
}  // namespace weir::test
