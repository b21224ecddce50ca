// SPDX-License-Identifier: Apache-2.0
// Producers and consumers of rings that are killed at each step.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "expect.hpp"
#include "surviving.hpp"
#include "weir/ring.hpp"

namespace weir::test {
namespace {

using ipc::Channel;
using ipc::Frame;
using ipc::RingConsumer;
using ipc::RingOptions;
using ipc::RingPolicy;
using ipc::RingProducer;

class KilledRings : public Surviving {
 protected:
  /// Publish twice the number of slots to the victim and to a consumer of this process.
  void feed(Victim& victim, RingPolicy policy) {
    victim.go();
    RingProducer producer(pool, {.slots = kill_count + 2, .slot_bytes = kill_bytes, .policy = policy});
    auto [mine, theirs] = Channel::make_sockets();
    (void)producer.add_consumer(std::move(mine));
    (void)producer.add_consumer(victim.take_socket());
    RingConsumer here(std::move(theirs));
    for (std::uint32_t i = 0; i < 2 * kill_count; ++i) {
      Buffer slot = producer.acquire(stream, kill_limit);
      write(slot, kill_pattern(i), stream);
      EXPECT_EQ(producer.publish(std::move(slot), stream), i);
      const Frame frame = here.next(stream, kill_limit);
      EXPECT_EQ(frame.sequence, i);
      check(frame.buffer, i);
    }
    const std::string said = victim.line();
    EXPECT_TRUE(said.empty() || said == "done") << said;
    (void)victim.end();
    EXPECT_TRUE(comes([&] { return producer.stats().consumers.size() == 1; })) << "the dead one still counts";
    EXPECT_TRUE(producer.drain(kill_limit));
    EXPECT_TRUE(comes([&] { return producer.stats().free == kill_count + 2; })) << producer.stats().free;
  }
};
WEIR_FOR_EACH(KilledRings, one_exportable_each(), MemoryName);

TEST_P(KilledRings, ConsumersGiveEverySlotBack) {
  kill_before_each_call("consume", "-", [&](Victim& victim) { feed(victim, RingPolicy::block); });
}

TEST_P(KilledRings, ConsumersThatMayMissFramesGiveEverySlotBack) {
  kill_before_each_call("consume", "-", [&](Victim& victim) { feed(victim, RingPolicy::drop_oldest); });
}

TEST_P(KilledRings, ProducersLeaveTheFramesThatConsumersHave) {
  kill_before_each_call("produce", "-", [&](Victim& victim) {
    victim.go();
    RingConsumer consumer(victim.take_socket());
    const Stream mine(device());
    std::optional<Frame> held;
    for (std::uint32_t i = 0; i < 2 * kill_count; ++i) {
      auto frame = got([&] { return consumer.next(mine, kill_limit); });
      if (!frame) break;
      EXPECT_EQ(frame->sequence, i);
      EXPECT_EQ(frame->missed, 0U);
      check(frame->buffer, mine, i);
      held = *std::move(frame);
    }
    const std::string said = victim.line();
    EXPECT_TRUE(said.empty() || said == "done") << said;
    if (!said.empty()) {
      EXPECT_EQ(held.value().sequence, 2 * kill_count - 1);
    }
    (void)victim.end();
    EXPECT_ERROR(consumer.next(mine, kill_limit), Errc::peer_gone, "");
    if (held) check(held->buffer, mine, static_cast<std::uint32_t>(held->sequence));
  });
}

}  // namespace
}  // namespace weir::test
