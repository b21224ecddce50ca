// SPDX-License-Identifier: Apache-2.0
// Memory runs out where a ring serves its consumers. Frames that were published arrive all the same, and slots come
// back, although nobody publishes again.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "inject/allocations.hpp"
#include "inject/system_calls.hpp"
#include "loop.hpp"
#include "sink.hpp"
#include "weir/channel.hpp"
#include "weir/host.hpp"
#include "weir/ring.hpp"

namespace weir::test {
namespace {

constexpr std::chrono::seconds limit{30};
constexpr std::size_t slots = 3, most = 200;

std::pair<ipc::RingProducer, ipc::RingConsumer> make_ring(const ResourcePtr& resource) {
  auto sockets = ipc::Channel::make_sockets();
  ipc::RingProducer ring(resource, {.slots = slots, .slot_bytes = 16});
  ipc::RingConsumer consumer(std::move(sockets.second));
  (void)ring.add_consumer(std::move(sockets.first));
  return {std::move(ring), std::move(consumer)};
}

class RingShortOfMemory : public testing::TestWithParam<Whose> {};

TEST_P(RingShortOfMemory, GoesOnByItself) {
  const Stream stream(host_device());
  FailingAllocations injector(host_device(), nullptr, GetParam());
  const auto resource = host::make_shared_resource();
  std::size_t nth = 1;
  for (bool more = true; more && nth < most; ++nth) {
    SCOPED_TRACE("allocation " + std::to_string(nth));
    auto [ring, consumer] = make_ring(resource);
    consumer.open(stream, limit);
    Buffer first = ring.acquire(stream, limit), second = ring.acquire(stream, limit);
    ring.publish(std::move(first), stream);
    EXPECT_EQ(consumer.next(stream, limit).sequence, 0U);
    injector.arm(nth, 0);
    bool published = false;
    try {
      ring.publish(std::move(second), stream);
      published = true;
    } catch (const std::bad_alloc&) {
    }
    if (GetParam() == Whose::own) more = injector.disarm().has_value();
    if (!published) ring.publish(ring.acquire(stream, limit), stream);
    EXPECT_EQ(consumer.next(stream, limit).sequence, 1U);
    EXPECT_TRUE(ring.drain(limit));
    EXPECT_TRUE(eventually([&] { return ring.stats().free == slots; })) << ring.stats().free;
    if (GetParam() == Whose::others) more = injector.disarm().has_value();
    (void)take_reports();
  }
  EXPECT_GT(nth, 2U);
  EXPECT_LT(nth, most) << "it never ends";
}

INSTANTIATE_TEST_SUITE_P(Of, RingShortOfMemory, testing::Values(Whose::own, Whose::others),
                         [](const auto& of) { return of.param == Whose::own ? "publish" : "the_thread"; });

// Many frames go in several packets, of which the system refuses one.
TEST(RingsShortOfRoom, GoOnWithTheFramesThatWereNotSent) {
  constexpr std::size_t many = 250, enobufs = 2;
  const Stream stream(host_device());
  FailingSystemCalls injector(host_device());
  const auto resource = host::make_shared_resource();
  std::size_t nth = 1;
  for (bool more = true; more && nth < most; ++nth) {
    SCOPED_TRACE("packet " + std::to_string(nth));
    auto sockets = ipc::Channel::make_sockets();
    ipc::RingProducer ring(resource, {.slots = many, .slot_bytes = 16, .per_consumer = many});
    (void)ring.add_consumer(std::move(sockets.first));
    ipc::RingConsumer consumer(std::move(sockets.second), {.ahead = 2 * many});
    consumer.open(stream, limit);
    std::vector<ipc::Parcel> frames;
    while (frames.size() != many) frames.push_back({ring.acquire(stream, limit), std::vector<std::byte>(240)});
    injector.arm_only("sendmsg", nth, enobufs);
    (void)ring.publish(frames, stream);
    more = injector.disarm().has_value();
    for (std::uint64_t i = 0; i < many; ++i) ASSERT_EQ(consumer.next(stream, limit).sequence, i);
    EXPECT_TRUE(eventually([&] { return ring.stats().free == many; })) << ring.stats().free;
    EXPECT_EQ(ring.stats().consumers.size(), 1U);
    (void)take_reports();
  }
  EXPECT_GT(nth, 3U) << "they went in one packet";
  EXPECT_LT(nth, most) << "it never ends";
}

// What the greeting says is learned once, and it is never taken for a frame.
TEST(RingsShortOfMemory, AreOpenedAgain) {
  const Stream stream(host_device());
  FailingAllocations injector(host_device());
  const auto resource = host::make_shared_resource();
  std::size_t nth = 1, refused = 0;
  for (bool more = true; more && nth < most; ++nth) {
    SCOPED_TRACE("allocation " + std::to_string(nth));
    auto [ring, consumer] = make_ring(resource);
    for (int i = 0; i < 2; ++i) ring.publish(ring.acquire(stream, limit), stream);
    injector.arm(nth, 0);
    try {
      consumer.open(stream, limit);
    } catch (const std::bad_alloc&) {
      ++refused;
    }
    more = injector.disarm().has_value();
    for (std::uint64_t i = 0; i < 2; ++i) {
      const ipc::Frame frame = consumer.next(stream, limit);
      EXPECT_EQ(frame.sequence, i);
      EXPECT_EQ(frame.buffer.size(), 16U);
    }
    (void)take_reports();
  }
  EXPECT_GE(refused, 3U);
  EXPECT_LT(nth, most) << "it never ends";
}

}  // namespace
}  // namespace weir::test
