// SPDX-License-Identifier: Apache-2.0
// Rings: whose work on a frame comes before whose.

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "fixture.hpp"
#include "ring_fixture.hpp"
#include "weir/ring.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using ipc::RingConsumer;
using ipc::RingProducer;

class RingOrder : public Rings {};
WEIR_FOR_EACH_EXPORTABLE(RingOrder);

TEST_P(RingOrder, AConsumersWorkComesBeforeTheEndOfItsFrame) {
  RingProducer producer(resource, {.slots = 2, .slot_bytes = 600});
  RingConsumer consumer = join(producer);
  publish(producer, 0, stream);
  publish(producer, 1, stream);
  const Stream other(host_device());
  Gate gate;
  gate.hold(other);
  ipc::Frame frame = consumer.next(stream, limit);
  frame.buffer.fill(std::uint8_t{1}, other);
  frame.buffer.close();
  EXPECT_ERROR(producer.acquire(stream, 5ms), Errc::timed_out, "2 slots");
  gate.open();
  (void)producer.acquire(stream, limit);
}

// What is put there, such as a host function, uses the slot without saying so.
TEST_P(RingOrder, WorkOnTheStreamOfAcquireComesBeforeTheFrame) {
  RingProducer producer(resource, {.slots = 2, .slot_bytes = 600});
  RingConsumer consumer = join(producer);
  const Stream making(device()), publishing(device()), reading(device());
  Gate gate;
  Buffer slot = producer.acquire(making, limit);
  gate.hold(making);
  (void)producer.publish(std::move(slot), publishing);
  const ipc::Frame frame = consumer.next(reading, limit);
  EXPECT_FALSE(reading.done());
  gate.open();
  reading.synchronize();
  EXPECT_TRUE(making.done());
}

TEST_P(RingOrder, WorkOnTheStreamOfAcquireComesBeforeTheEndOfASlot) {
  RingProducer producer(resource, {.slots = 2, .slot_bytes = 600});
  const Stream making(device());
  Gate gate;
  Buffer slot = producer.acquire(making, limit);
  gate.hold(making);
  slot.close();
  EXPECT_EQ(producer.stats().free, 1U);
  gate.open();
  EXPECT_EQ(free_slots(producer, 2), 2U);
}

// Otherwise every frame would wait for the next ones.
TEST_P(RingOrder, LaterWorkOnTheStreamOfAcquireIsNotOfTheFrame) {
  RingProducer producer(resource, {.slots = 2, .slot_bytes = 600});
  RingConsumer consumer = join_open(producer);
  const Stream making(device());
  publish(producer, 0, making);
  publish(producer, 1, making);
  expect_frame(consumer.next(stream, limit), 0, 0);
  making.synchronize();
  Gate gate;
  gate.hold(making);
  EXPECT_EQ(free_slots(producer, 1), 1U);
  expect_frame(consumer.next(stream, limit), 1, 0);
  EXPECT_EQ(free_slots(producer, 2), 2U);
  gate.open();
}

TEST_P(RingOrder, TheConsumersStreamWaitsForTheProducers) {
  RingProducer producer(resource, {.slots = 4, .slot_bytes = 600});
  RingConsumer consumer = join(producer);
  const Stream making(device()), other(device());
  Gate gate;
  gate.hold(making);
  for (std::uint32_t i = 0; i < 3; ++i) publish(producer, i, making);  // the last one is sent later, by the library
  std::vector<ipc::Frame> frames;
  std::vector<Bytes> seen(3, Bytes(600));
  for (std::size_t i = 0; i < 2; ++i) {
    frames.push_back(consumer.next(other, limit));
    frames[i].buffer.copy_to(std::span(seen[i]), other);
  }
  EXPECT_FALSE(other.done());
  frames.erase(frames.begin());
  EXPECT_ERROR(consumer.next(other, 5ms), Errc::timed_out, "in time") << "the consumer still uses two slots";
  gate.open();
  frames.push_back(consumer.next(other, limit));
  frames.back().buffer.copy_to(std::span(seen[2]), other);
  other.synchronize();
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_BYTES(seen[i], pattern(600, i));
}

// One consumer stands still. The frame that it gets later was made on a stream that stands still, too.
TEST_P(RingOrder, AFrameThatIsSentLaterIsWaitedFor) {
  RingProducer producer(resource, {.slots = 4, .slot_bytes = 600, .per_consumer = 1});
  RingConsumer consumer = join(producer);
  publish(producer, 0, stream);
  ipc::Frame first = consumer.next(stream, limit);
  const Stream making(device()), other(device());
  Gate gate;
  Buffer slot = producer.acquire(making);
  write(slot, pattern(600, 1), making);
  gate.hold(making);  // work that weir knows only by its stream
  EXPECT_EQ(producer.publish(std::move(slot), making), 1U);
  first.buffer.close();
  const ipc::Frame frame = consumer.next(other, limit);
  Bytes seen(600);
  frame.buffer.copy_to(std::span(seen), other);
  EXPECT_FALSE(other.done());
  gate.open();
  other.synchronize();
  EXPECT_BYTES(seen, pattern(600, 1));
}

}  // namespace
}  // namespace weir::test
