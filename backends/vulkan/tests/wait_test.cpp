// SPDX-License-Identifier: Apache-2.0
// Order between streams of one VkDevice, and with an application's own submits.
#include "app.hpp"
#include "gate.hpp"

namespace weir::vulkan::test {

class Waits : public OnApp {
 protected:
  static std::byte first_byte(const Buffer& buffer, const Stream& stream) {
    std::byte byte{};
    buffer.copy_to(std::span(&byte, 1), stream);
    stream.synchronize();
    return byte;
  }
};

TEST_F(Waits, AStreamThatIsHeldDoesNotHoldItsQueue) {
  weir::test::Gate gate;
  const Stream held{device()}, free{device()};  // one VkQueue
  const auto resource = make_device_resource(device());
  Buffer buffer = resource->allocate(64, free);
  gate.hold(held);
  held.wait(free.record());
  buffer.fill(std::byte{1}, free);
  free.synchronize();  // hangs if the queue waits for the gate
  buffer.fill(std::byte{2}, held);
  EXPECT_EQ(first_byte(buffer, free), std::byte{1});
  gate.open();
  held.synchronize();
  EXPECT_EQ(first_byte(buffer, free), std::byte{2});
}

TEST_F(Waits, NoWaitReachesTheQueueBeforeItsSignal) {
  weir::test::Gate gate;
  const Stream producer{device()}, consumer{device()};
  const auto resource = make_device_resource(device());
  Buffer buffer = resource->allocate(64, producer);
  gate.hold(producer);
  buffer.fill(std::byte{5}, producer);
  consumer.wait(producer.record());  // not submitted yet: kept in software
  Buffer copy = resource->allocate(64, consumer);
  copy.copy_from(buffer, consumer);
  const Stream bystander{device()};
  copy.use_on(bystander);
  Buffer other = resource->allocate(64, bystander);
  other.fill(std::byte{9}, bystander);
  bystander.synchronize();
  EXPECT_FALSE(consumer.done());
  gate.open();
  EXPECT_EQ(first_byte(copy, consumer), std::byte{5});
}

TEST_F(Waits, StreamsPassEachOther) {
  const Stream a{device()}, b{device()};
  const auto resource = make_device_resource(device());
  Buffer buffer = resource->allocate(4096, a);
  buffer.fill(std::uint32_t{0}, a);
  for (std::uint32_t i = 1; i <= 200; ++i) {
    const Stream& mine = i % 2 ? b : a;
    mine.wait((i % 2 ? a : b).record());
    buffer.fill(i, (i % 64) * 4, 4, mine);
  }
  const Stream last{device()};
  last.wait(a.record());
  std::vector<std::uint32_t> words(1024);
  buffer.copy_to(std::as_writable_bytes(std::span(words)), last);
  last.synchronize();
  EXPECT_EQ(words[200 % 64], 200u);
  EXPECT_EQ(words[199 % 64], 199u);
}

TEST_F(Waits, ApplicationAndWeirAlternate) {
  const Stream stream{device()};
  const auto resource = make_device_resource(device());
  Buffer buffer = resource->allocate(4096, stream);
  VkSemaphore theirs = app->make_timeline();
  for (std::uint64_t round = 1; round <= 20; ++round) {
    buffer.fill(static_cast<std::uint32_t>(round), stream);
    const auto ours = native(stream);
    EXPECT_EQ(ours.device, app->device);
    EXPECT_EQ(ours.queue, app->queue);
    with_queue(stream, [&](VkQueue_T*) { app->submit(ours.semaphore, ours.value, theirs, round); });
    vulkan::wait(stream, theirs, round);
  }
  EXPECT_EQ(first_byte(buffer, stream), std::byte{20});
  buffer.close();
  app->wait_idle();
  app->destroy(theirs);
}

TEST_F(Waits, NativeSignalsAlsoWhenTheLastWorkWasOnTheHost) {
  const Stream stream{device()};
  stream.call([] {});
  stream.synchronize();
  const auto ours = native(stream);
  VkSemaphore theirs = app->make_timeline();
  with_queue(stream, [&](VkQueue_T*) { app->submit(ours.semaphore, ours.value, theirs, 1); });
  vulkan::wait(stream, theirs, 1);
  EXPECT_EQ(stream.synchronize(std::chrono::seconds{20}), WaitStatus::ready);
  app->wait_idle();
  app->destroy(theirs);
}

TEST_F(Waits, TimeoutsAreTruthful) {
  weir::test::Gate gate;
  const Stream stream{device()};
  gate.hold(stream);
  const Event event = stream.record();
  EXPECT_EQ(event.wait(std::chrono::milliseconds{5}), WaitStatus::timeout);
  EXPECT_FALSE(event.done());
  gate.open();
  EXPECT_EQ(event.wait(std::chrono::nanoseconds{-1}), WaitStatus::ready);
}

}  // namespace weir::vulkan::test
