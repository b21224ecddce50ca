// SPDX-License-Identifier: Apache-2.0
// Events across devices and backends, and waits that tell the truth: how long they took, and that the work goes on.

#include <atomic>
#include <cstdint>
#include <latch>
#include <optional>

#include "fixture.hpp"
#include "settle.hpp"
#include "threads.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class Events : public OnDevice {};
WEIR_FOR_EACH_DEVICE(Events);

TEST_P(Events, TimeoutsAreNotShorterThanAsked) {
  Gate gate;
  gate.hold(stream);
  const Event event = stream.record();
  for (const auto wait : {std::chrono::nanoseconds(1), std::chrono::nanoseconds(15ms)}) {
    const auto begin = Clock::now();
    EXPECT_EQ(event.wait(wait), WaitStatus::timeout);
    EXPECT_GE(Clock::now() - begin, wait);
    const auto again = Clock::now();
    EXPECT_EQ(stream.synchronize(wait), WaitStatus::timeout);
    EXPECT_GE(Clock::now() - again, wait);
  }
}

TEST_P(Events, AfterATimeoutTheWorkGoesOn) {
  for (const Device& theirs : devices()) {
    const ResourcePtr resource = make_resource(theirs);
    const Stream other(theirs);
    Buffer buffer = resource->allocate(1000, other);
    buffer.fill(std::uint8_t{0x11}, other);
    Gate gate;
    gate.hold(other);
    buffer.fill(std::uint8_t{0x22}, other);
    stream.wait(other.record());
    buffer.fill(std::uint8_t{0x33}, 10, 10, stream);
    const Event end = stream.record();
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(end.wait(1ms), WaitStatus::timeout) << theirs.id();
      EXPECT_EQ(stream.synchronize(1ms), WaitStatus::timeout) << theirs.id();
      EXPECT_FALSE(end.done() || stream.done()) << theirs.id();
    }
    gate.open();
    EXPECT_EQ(end.wait(-1ns), WaitStatus::ready);
    EXPECT_TRUE(end.done()) << theirs.id();
    Bytes expected = repeat(1000, 0x22);
    std::fill_n(expected.begin() + 10, 10, std::byte{0x33});
    EXPECT_BYTES(read(buffer, stream), expected) << theirs.id();
  }
}

TEST_P(Events, ARunningHostFunctionIsWaitedForAsLongAsAsked) {
  // While CUDA frees what an earlier test left, it waits for this function and keeps this thread from all other calls.
  await_releases();
  std::promise<void> begun, finish;
  stream.call([&begun, end = finish.get_future().share()] {
    begun.set_value();
    end.wait();
  });
  const Event event = stream.record();
  stream.flush();
  begun.get_future().wait();
  EXPECT_EQ(event.wait(2ms), WaitStatus::timeout);
  EXPECT_EQ(stream.synchronize(2ms), WaitStatus::timeout);
  EXPECT_FALSE(event.done());
  finish.set_value();
  stream.synchronize();
  EXPECT_TRUE(event.done());
}

TEST_P(Events, OutliveTheirStreamAndAreValues) {
  Gate gate;
  std::optional<Stream> own{Stream(device())};
  gate.hold(*own);
  const Event first = own->record();
  Event copy = first;
  const Event moved = std::move(copy);
  own.reset();
  EXPECT_FALSE(first.done());
  EXPECT_EQ(moved.wait(1ms), WaitStatus::timeout);
  stream.wait(moved);
  gate.open();
  stream.synchronize();
  EXPECT_TRUE(first.done());
  EXPECT_TRUE(moved.done());
}

TEST_P(Events, ManyThreadsWaitForOne) {
  constexpr std::ptrdiff_t count = 8;
  Gate gate;
  gate.hold(stream);
  const Event event = stream.record();
  std::latch started(count);
  std::atomic<int> ready{0}, early{0};
  std::atomic<bool> opened{false};
  std::vector<Thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      started.count_down();
      if (i % 2) {
        event.wait();
        ++ready;
      } else {
        ready += event.wait(-1ns) == WaitStatus::ready ? 1 : 0;
      }
      early += opened ? 0 : 1;
    });
  }
  const OnLeaving open([&] { gate.open(); });
  started.wait();
  EXPECT_EQ(event.wait(1ms), WaitStatus::timeout);
  opened = true;
  gate.open();
  for (Thread& thread : threads) thread.join();
  EXPECT_EQ(ready, count);
  EXPECT_EQ(early, 0);
}

TEST_P(Events, PointsAreReachedInOrder) {
  constexpr int count = 50;
  Gate gate;
  gate.hold(stream);
  std::vector<Event> points;
  for (int i = 0; i < count; ++i) {
    if (i % 3 == 0) stream.call([] {});
    points.push_back(stream.record());
  }
  EXPECT_FALSE(points.front().done());
  gate.open();
  points[count / 2].wait();
  for (int i = 0; i <= count / 2; ++i) EXPECT_TRUE(points[static_cast<std::size_t>(i)].done()) << i;
  points.back().wait();
  for (const Event& point : points) EXPECT_TRUE(point.done());
}

TEST_P(Events, ARoundThroughEveryDeviceComesBack) {
  Gate gate;
  const ResourcePtr resource = make_resource(device());
  Buffer buffer = resource->allocate(256, stream);
  gate.hold(stream);
  buffer.fill(std::uint8_t{0}, stream);
  Event last = stream.record();
  std::uint8_t number = 0;
  for (int round = 0; round < 2; ++round) {
    for (const Device& theirs : devices()) {
      const Stream next(theirs);
      next.wait(last);
      ++number;
      buffer.fill(number, number, 1, next);
      last = next.record();
    }
  }
  stream.wait(last);
  EXPECT_FALSE(stream.done());
  gate.open();
  Bytes expected = repeat(256, 0);
  for (std::uint8_t i = 1; i <= number; ++i) expected[i] = std::byte{i};
  EXPECT_BYTES(read(buffer, stream), expected);
}

}  // namespace
}  // namespace weir::test
