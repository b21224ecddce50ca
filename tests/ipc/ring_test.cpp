// SPDX-License-Identifier: Apache-2.0
// Rings: a producer and its consumers in this process.

#include "weir/ring.hpp"

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "fixture.hpp"
#include "ring_fixture.hpp"
#include "threads.hpp"
#include "upstreams.hpp"
#include "waiting.hpp"
#include "weir/host.hpp"
#include "weir/pool.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using ipc::RingConsumer;
using ipc::RingPolicy;
using ipc::RingProducer;

WEIR_FOR_EACH_EXPORTABLE(Rings);

TEST_P(Rings, AFrameIsTheSameMemory) {
  RingProducer producer(resource, {.slots = 3, .slot_bytes = 5000});
  RingConsumer consumer = join(producer);
  Buffer slot = producer.acquire(stream);
  EXPECT_EQ(slot.size(), 5000U);
  write(slot, pattern(5000, 1), stream);
  const Buffer mine = slot.share();
  EXPECT_EQ(producer.publish(std::move(slot), stream, payload(17)), 0U);
  ipc::Frame frame = consumer.next(stream, limit);
  EXPECT_EQ(frame.sequence, 0U);
  EXPECT_EQ(frame.missed, 0U);
  EXPECT_EQ(frame.payload, payload(17));
  EXPECT_BYTES(read(frame.buffer, stream), pattern(5000, 1));
  frame.buffer.fill(std::uint8_t{9}, stream);
  EXPECT_BYTES(read(mine, stream), repeat(5000, 9));
}

TEST_P(Rings, OthersMayStandOverTheResourceOfASlot) {
  RingProducer producer(resource, {.slots = 2, .slot_bytes = 500});
  Buffer slot = producer.acquire(stream);
  expect_serves_others(slot.memory_resource(), stream);
  slot.close();
  EXPECT_EQ(producer.stats().free, 2U) << "what others closed became a slot";
}

TEST_P(Rings, EveryConsumerGetsEveryFrameInOrder) {
  RingProducer producer(resource, {.slots = 4, .slot_bytes = 600});
  std::vector<RingConsumer> consumers;
  for (int i = 0; i < 3; ++i) consumers.push_back(join(producer));
  const Thread making([&] {
    const Stream own(device());
    for (std::uint32_t i = 0; i < 100; ++i) publish(producer, i, own);
    EXPECT_TRUE(producer.drain(limit));
  });
  for (std::uint32_t i = 0; i < 100; ++i) {
    for (RingConsumer& consumer : consumers) expect_frame(consumer.next(stream, limit), i, 0);
  }
}

TEST_P(Rings, SlotsComeBackWhenConsumersAreDone) {
  RingProducer producer(resource, {.slots = 2, .slot_bytes = 600});
  RingConsumer consumer = join(producer);
  publish(producer, 0, stream);
  publish(producer, 1, stream);
  EXPECT_ERROR(producer.acquire(stream, 5ms), Errc::timed_out, "2 slots");
  ipc::Frame frame = consumer.next(stream, limit);
  EXPECT_ERROR(producer.acquire(stream, 5ms), Errc::timed_out, "2 slots");
  frame.buffer.close();
  Buffer slot = producer.acquire(stream, limit);
  EXPECT_EQ(producer.stats().free, 0U);
  slot.close();
  EXPECT_EQ(free_slots(producer, 1), 1U) << "a slot that was not published is free again";
}

TEST_P(Rings, ASlowConsumerLosesTheOldest) {
  RingProducer producer(resource, {.slots = 6, .slot_bytes = 600, .policy = RingPolicy::drop_oldest});
  RingConsumer slow = join_open(producer);
  for (std::uint32_t i = 0; i < 20; ++i) publish(producer, i, stream, limit);
  // Two were sent ahead, and there is memory for the last four.
  for (const std::uint32_t i : {0U, 1U}) expect_frame(slow.next(stream, limit), i, 0);
  expect_frame(slow.next(stream, limit), 16, 14);
  for (const std::uint32_t i : {17U, 18U, 19U}) expect_frame(slow.next(stream, limit), i, 0);
  EXPECT_EQ(producer.stats().dropped, 14U);
  ASSERT_EQ(producer.stats().consumers.size(), 1U);
  EXPECT_EQ(producer.stats().consumers[0].missed, 14U);
}

// While the work on a frame that was dropped goes on, whatever consumers do costs no further frames.
TEST_P(Rings, OneCallDropsOneFrame) {
  RingProducer producer(resource,
                        {.slots = 8, .slot_bytes = 600, .policy = RingPolicy::drop_oldest, .per_consumer = 3});
  RingConsumer consumer = join_open(producer, {.ahead = 1});
  const Stream work(host_device());
  publish(producer, 0, stream);
  expect_frame(consumer.next(stream, limit), 0, 0);
  Gate gate;
  gate.hold(work);
  for (int i = 0; i < 8; ++i) {
    Buffer slot = producer.acquire(stream, limit);
    slot.use_on(work);
    producer.publish(std::move(slot), work);
  }
  const Waiting acquires([&] { (void)producer.acquire(stream, limit); });
  const OnLeaving opens([&] { gate.open(); });
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (producer.stats().dropped == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  for (int i = 0; i < 2; ++i) (void)consumer.next(Stream(host_device()), limit);
  producer.remove_consumer(99);  // there is none of that number, but whoever waits looks again
  EXPECT_EQ(producer.stats().dropped, 1U);
  gate.open();
}

TEST_P(Rings, FramesThatArePartsOfOneSlotAreDroppedTogether) {
  RingProducer producer(resource,
                        {.slots = 3, .slot_bytes = 600, .policy = RingPolicy::drop_oldest, .per_consumer = 1});
  RingConsumer consumer = join(producer, {.ahead = 1});
  for (int i = 0; i < 6; ++i) {
    Buffer slot = producer.acquire(stream, limit);
    Buffer first = slot.slice(0, 256), second = slot.slice(256, 256);
    slot.close();
    producer.publish(std::move(first), stream);
    producer.publish(std::move(second), stream);
  }
  EXPECT_GE(producer.stats().dropped, 4U);
}

// Taking back a frame whose slot somebody holds would make no room.
TEST_P(Rings, FramesThatAConsumerHoldsAreNotDroppedForOthers) {
  RingProducer producer(resource, {.slots = 5, .slot_bytes = 600, .policy = RingPolicy::drop_oldest});
  RingConsumer reads = join(producer, {.ahead = 64}), lags = join(producer, {.ahead = 1});
  ipc::Frame held;
  for (std::uint32_t i = 0; i < 5; ++i) {
    publish(producer, i, stream, limit);
    ipc::Frame frame = reads.next(stream, limit);
    if (i == 0) held = std::move(frame);
  }
  const auto holds_one = [&] { return producer.stats().consumers.front().held == 1; };
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!holds_one() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  publish(producer, 5, stream, limit);
  EXPECT_EQ(producer.stats().dropped, 1U);
  for (const std::uint32_t i : {0, 2, 3, 4, 5}) expect_frame(lags.next(stream, limit), i, i == 2 ? 1 : 0);
  EXPECT_BYTES(read(held.buffer, stream), pattern(bytes, 0));
}

TEST_P(Rings, WhoHoldsFramesForEverStopsNobodyElse) {
  RingProducer producer(resource, {.slots = 7, .slot_bytes = 600, .policy = RingPolicy::drop_oldest});
  RingConsumer greedy = join(producer, {.ahead = 64}), good = join(producer), silent = join(producer);
  std::vector<ipc::Frame> held;
  for (std::uint32_t i = 0; i < 50; ++i) {
    publish(producer, i, stream, limit);
    expect_frame(good.next(stream, limit), i, 0);
    if (i < 2) held.push_back(greedy.next(stream, limit));
  }
  EXPECT_ERROR(greedy.next(stream, 5ms), Errc::timed_out, "in time") << "it has as many as it may have";
  held.erase(held.begin());
  EXPECT_GT(greedy.next(stream, limit).missed, 40U);
}

TEST_P(Rings, ARingTooSmallForItsConsumersRefusesThem) {
  RingProducer producer(resource, {.slots = 4, .slot_bytes = 600, .policy = RingPolicy::drop_oldest});
  const RingConsumer first = join(producer);
  EXPECT_ERROR(join(producer), Errc::invalid_argument, "5 slots");
  EXPECT_EQ(producer.stats().consumers.size(), 1U);
}

TEST_P(Rings, WhoeverComesLaterBeginsWithTheNextFrame) {
  RingProducer producer(resource, {.slots = 4, .slot_bytes = 600});
  for (std::uint32_t i = 0; i < 10; ++i) publish(producer, i, stream, limit);  // to nobody
  RingConsumer consumer = join(producer);
  publish(producer, 10, stream, limit);
  expect_frame(consumer.next(stream, limit), 10, 0);
}

TEST_P(Rings, AConsumerThatLeavesHoldsNobodyUp) {
  RingProducer producer(resource, {.slots = 3, .slot_bytes = 600});
  RingConsumer stays = join(producer);
  ipc::Frame held;
  {
    RingConsumer leaves = join(producer);
    publish(producer, 0, stream, limit);
    held = leaves.next(stream, limit);
  }
  expect_frame(stays.next(stream, limit), 0, 0);
  for (std::uint32_t i = 1; i < 20; ++i) {
    publish(producer, i, stream, limit);
    expect_frame(stays.next(stream, limit), i, 0);
  }
  EXPECT_BYTES(read(held.buffer, stream), pattern(600, 0)) << "what it holds stays valid";
  EXPECT_EQ(free_slots(producer, 2), 2U);
  held.buffer.close();
  EXPECT_EQ(free_slots(producer, 3), 3U);
}

TEST_P(Rings, AConsumerThatIsRemovedGetsWhatWasSent) {
  RingProducer producer(resource, {.slots = 3, .slot_bytes = 600});
  RingConsumer consumer = join_open(producer);
  const auto id = producer.stats().consumers.back().id;
  publish(producer, 0, stream, limit);
  EXPECT_TRUE(producer.drain(limit));
  producer.remove_consumer(id);
  producer.remove_consumer(id + 1);
  expect_frame(consumer.next(stream, limit), 0, 0);
  EXPECT_ERROR(consumer.next(stream, limit), Errc::peer_gone, "");
  EXPECT_EQ(free_slots(producer, 3), 3U);
}

TEST_P(Rings, FramesOutliveTheProducer) {
  ipc::Frame frame;
  std::optional<RingConsumer> consumer;
  {
    RingProducer producer(resource, {.slots = 3, .slot_bytes = 600});
    consumer = join_open(producer);
    publish(producer, 0, stream);
    publish(producer, 1, stream);
    EXPECT_TRUE(producer.drain(limit));
    frame = consumer->next(stream, limit);
  }
  expect_frame(std::move(frame), 0, 0);
  expect_frame(consumer->next(stream, limit), 1, 0);
  EXPECT_ERROR(consumer->next(stream, limit), Errc::peer_gone, "");
}

TEST_P(Rings, OneCallPublishesMany) {
  RingProducer producer(resource, {.slots = 300, .slot_bytes = 64, .per_consumer = 300});
  RingConsumer consumer = join(producer, {.ahead = 256});
  std::vector<ipc::Parcel> parcels;
  for (std::uint32_t i = 0; i < 300; ++i) {
    parcels.push_back({producer.acquire(stream), payload(i % 249)});
    write(parcels.back().buffer, pattern(64, i), stream);
  }
  EXPECT_EQ(producer.publish(parcels, stream), 0U);
  EXPECT_TRUE(parcels.front().buffer.is_closed());
  for (std::uint32_t i = 0; i < 300; ++i) {
    ipc::Frame frame = consumer.next(stream, limit);
    EXPECT_EQ(frame.sequence, i);
    EXPECT_EQ(frame.payload, payload(i % 249));
    EXPECT_BYTES(read(frame.buffer, stream), pattern(64, i));
  }
}

// The consumer says that it takes 256 frames, and nobody reads its socket.
TEST_P(Rings, ASocketThatIsFullIsWaitedFor) {
  RingProducer producer(resource, {.slots = 300, .slot_bytes = 64, .per_consumer = 300});
  auto [mine, theirs] = ipc::Channel::make_sockets();
  const int room = 32 << 10;
  ASSERT_EQ(::setsockopt(mine.get(), SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
  (void)producer.add_consumer(std::move(mine));
  RingConsumer consumer(std::move(theirs), {.ahead = 256});
  std::vector<ipc::Parcel> parcels;
  for (std::uint32_t i = 0; i < 250; ++i) parcels.push_back({producer.acquire(stream), payload(248)});
  consumer.open(stream, limit);
  (void)producer.publish(parcels, stream);
  EXPECT_FALSE(producer.drain(5ms));
  std::vector<ipc::Frame> held;  // so few that the consumer says nothing
  for (std::uint32_t i = 0; i < 40; ++i) held.push_back(consumer.next(stream, limit));
  EXPECT_TRUE(producer.drain(limit));
  for (std::uint32_t i = 40; i < 250; ++i) EXPECT_EQ(consumer.next(stream, limit).sequence, i);
}

TEST_P(Rings, TheMemoryMayBePartOfAPool) {
  const auto pool = make_pool(resource, {.exportable = true});
  const Buffer other = pool->allocate(10'000, stream);
  RingProducer producer(pool, {.slots = 3, .slot_bytes = 5000});
  RingConsumer consumer = join(producer);
  for (std::uint32_t i = 0; i < 9; ++i) {
    Buffer slot = producer.acquire(stream, limit);
    write(slot, pattern(5000, i), stream);
    (void)producer.publish(slot.slice(1000, 3000), stream);
    slot.close();
    const ipc::Frame frame = consumer.next(stream, limit);
    EXPECT_BYTES(read(frame.buffer, stream), part(pattern(5000, i), 1000, 3000));
  }
}

TEST_P(Rings, TensorsHaveTheRingsLayout) {
  const Layout layout = Layout::padded(f32, {3, 5}, {3, 8});
  RingProducer producer(resource, {.slots = 3, .layout = layout});
  EXPECT_EQ(producer.slot_bytes(), layout.bytes_needed());
  RingConsumer consumer = join(producer);
  Tensor tensor = producer.acquire_tensor(stream);
  tensor.fill(2.5F, stream);
  (void)producer.publish(std::move(tensor), stream);
  const Tensor received = consumer.next(stream, limit).tensor();
  EXPECT_EQ(received.layout().shape, layout.shape);
  EXPECT_EQ(received.layout().strides, layout.strides);
  EXPECT_EQ(received.layout().dtype, f32);
  float last = 0;
  received.buffer().copy_to(std::as_writable_bytes(std::span(&last, 1)), stream, layout.bytes_needed() - 4);
  stream.synchronize();
  EXPECT_EQ(last, 2.5F);
}

TEST_P(Rings, CloseEndsCallsThatWait) {
  RingProducer producer(resource, {.slots = 2, .slot_bytes = 600});
  RingConsumer consumer = join(producer);
  publish(producer, 0, stream);
  const Buffer held = producer.acquire(stream, limit);
  {
    const Thread waiting([&] { EXPECT_ERROR(producer.acquire(stream, limit), Errc::closed, "closed"); });
    producer.close();
  }
  EXPECT_ERROR(producer.publish(held.share(), stream), Errc::closed, "closed");
  EXPECT_ERROR(producer.drain(), Errc::closed, "closed");
  EXPECT_ERROR(join(producer), Errc::closed, "closed");
}

}  // namespace
}  // namespace weir::test
