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
  EXPECT_EQ(stream.synchronize(std::chrono::hours{1}), WaitStatus::ready);
  app->wait_idle();
  app->destroy(theirs);
}

TEST_F(Waits, WhatWasRecordedBeforeAWaitDoesNotWait) {
  const Stream waits{device()}, awaited{device()};
  const auto resource = make_device_resource(device());
  Buffer a = resource->allocate(64, waits), b = resource->allocate(64, awaited);
  calls().clear();
  a.fill(std::byte{1}, waits);
  b.fill(std::byte{2}, awaited);
  waits.wait(awaited.record());
  EXPECT_EQ(calls()["vkQueueSubmit"], 2);  // the awaited one, and what must not wait for it
  a.fill(std::byte{3}, waits);
  EXPECT_EQ(first_byte(a, waits), std::byte{3});
}

TEST_F(Waits, AnApplicationsValueIsWaitedForInFull) {
  const Stream stream{device()};
  const auto resource = make_device_resource(device());
  Buffer buffer = resource->allocate(4096, stream);
  VkSemaphore theirs = app->make_timeline();
  for (std::uint64_t round = 1; round <= 3; ++round) {
    const auto ours = native(stream);
    with_queue(stream, [&](VkQueue_T*) { app->submit(ours.semaphore, ours.value, theirs, 10 * round); });
  }
  vulkan::wait(stream, theirs, 25);  // reached with 30
  const Event after = stream.record();
  EXPECT_EQ(after.wait(std::chrono::hours{1}), WaitStatus::ready);
  EXPECT_GE(app->value(theirs), 25U);
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

/// Between queues, where nothing but semaphores orders anything: the judge sees what they leave out.
class WaitsBetweenQueues : public OnVulkan {
 protected:
  void SetUp() override {
    OnVulkan::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    one_.emplace(device());
    other_.emplace(device());
    if (native(*one_).queue == native(*other_).queue) GTEST_SKIP() << "this device has one queue";
  }
  static std::uint32_t word_of(const Buffer& buffer, std::size_t offset, const Stream& stream) {
    std::uint32_t word = 0;
    buffer.copy_to(std::as_writable_bytes(std::span(&word, 1)), stream, offset);
    stream.synchronize();
    return word;
  }

  [[nodiscard]] const Stream& one() const { return *one_; }
  [[nodiscard]] const Stream& other() const { return *other_; }

 private:
  std::optional<Stream> one_, other_;
};

TEST_F(WaitsBetweenQueues, AnEventOrdersBothWays) {
  const auto resource = make_device_resource(device());
  Buffer buffer = resource->allocate(4096, one()), copy = resource->allocate(4096, other());
  for (std::uint32_t i = 1; i <= 20; ++i) {
    buffer.fill(i, one());
    other().wait(one().record());
    copy.copy_from(buffer, other());  // reads what was written
    one().wait(other().record());     // and is over before it is written again
  }
  EXPECT_EQ(word_of(copy, 4092, other()), 20U);
}

TEST_F(WaitsBetweenQueues, TheLatestOfSeveralPointsCounts) {
  constexpr std::size_t large = std::size_t{64} << 20;  // takes a while: both points are ahead when they are waited for
  const auto resource = make_device_resource(device());
  Buffer buffer = resource->allocate(large, one()), copy = resource->allocate(4096, other());
  for (const bool in_order : {true, false}) {
    buffer.fill(std::uint32_t{1}, one());
    const Event first = one().record();
    one().flush();
    buffer.fill(std::uint32_t{2}, 0, 4096, one());
    const Event second = one().record();
    one().flush();
    other().wait(in_order ? first : second);
    other().wait(in_order ? second : first);
    copy.copy_from(buffer, 0, 0, 4096, other());
    EXPECT_EQ(word_of(copy, 4092, other()), 2U);
    one().wait(other().record());
  }
}

TEST_F(WaitsBetweenQueues, AWaitHoldsForEverythingBehindIt) {
  const auto resource = make_device_resource(device());
  Buffer buffer = resource->allocate(4096, one()), copy = resource->allocate(4096, other());
  buffer.fill(std::uint32_t{1}, one());
  other().wait(one().record());
  copy.fill(std::uint32_t{0}, other());
  other().flush();
  copy.copy_from(buffer, other());  // a batch of its own
  EXPECT_EQ(word_of(copy, 0, other()), 1U);
}

TEST_F(WaitsBetweenQueues, ChainsThroughThreeQueuesHold) {
  const Stream last{device()};
  const auto resource = make_device_resource(device());
  Buffer a = resource->allocate(4096, one()), b = resource->allocate(4096, other()), c = resource->allocate(4096, last);
  for (std::uint32_t i = 1; i <= 10; ++i) {
    a.fill(i, one());
    other().wait(one().record());
    b.copy_from(a, other());
    last.wait(other().record());
    c.copy_from(a, last);  // known by way of the other alone
    c.copy_from(b, 0, 0, 2048, last);
    one().wait(last.record());
  }
  EXPECT_EQ(word_of(c, 0, last), 10U);
  EXPECT_EQ(word_of(c, 4092, last), 10U);
}

}  // namespace weir::vulkan::test
