// SPDX-License-Identifier: Apache-2.0
// Streams and events by themselves: order, truthful waits, handles as values, work that outlives its handles.

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "fixture.hpp"
#include "settle.hpp"
#include "sink.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;

class Streams : public OnDevice {};
WEIR_FOR_EACH_DEVICE(Streams);

TEST_P(Streams, FreshOnesAreDone) {
  EXPECT_TRUE(stream.done());
  EXPECT_EQ(stream.device(), device());
  const Event event = stream.record();
  event.wait();
  EXPECT_TRUE(event.done());
  EXPECT_EQ(event.wait(0ns), WaitStatus::ready);
  stream.flush();
  stream.synchronize();
  EXPECT_EQ(stream.synchronize(0ns), WaitStatus::ready);
}

TEST_P(Streams, AreValues) {
  const Stream other(device());
  const Stream copy = stream;
  EXPECT_EQ(copy, stream);
  EXPECT_EQ(copy.id(), stream.id());
  EXPECT_NE(other, stream);
  EXPECT_NE(other.id(), stream.id());
  Gate gate;
  gate.hold(copy);
  EXPECT_FALSE(stream.done());
  gate.open();
  stream.synchronize();
  EXPECT_TRUE(copy.done());
}

TEST_P(Streams, IdsAreNeverReused) {
  std::uint64_t last = 0;
  for (int i = 0; i < 10; ++i) {
    const std::uint64_t id = Stream(device()).id();
    EXPECT_GT(id, last);
    last = id;
  }
}

TEST_P(Streams, TimeoutsAreTruthful) {
  Gate gate;
  gate.hold(stream);
  const Event event = stream.record();
  EXPECT_EQ(event.wait(0ns), WaitStatus::timeout);
  EXPECT_EQ(event.wait(10ms), WaitStatus::timeout);
  EXPECT_FALSE(event.done());
  EXPECT_EQ(stream.synchronize(10ms), WaitStatus::timeout);
  EXPECT_FALSE(stream.done());
  gate.open();
  EXPECT_EQ(event.wait(-1ns), WaitStatus::ready);
  EXPECT_TRUE(event.done());
  EXPECT_EQ(stream.synchronize(std::chrono::nanoseconds::max()), WaitStatus::ready);
  EXPECT_TRUE(stream.done());
}

TEST_P(Streams, CallsRunInOrderOnAnotherThread) {
  std::vector<int> order;
  std::thread::id runner;
  Gate gate;
  gate.hold(stream);
  for (int i = 0; i < 20; ++i) {
    stream.call([&, i] {
      order.push_back(i);
      runner = std::this_thread::get_id();
    });
  }
  EXPECT_TRUE(order.empty());
  gate.open();
  stream.synchronize();
  ASSERT_EQ(order.size(), 20U);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  EXPECT_NE(runner, std::this_thread::get_id());
}

TEST_P(Streams, LaterWorkWaitsForACall) {
  await_releases();  // a free of CUDA's would wait for the call, and keep this thread from opening the gate
  std::atomic<bool> opened{false};
  Gate gate;
  stream.call([event = gate.event(), &opened] {
    event.wait();
    opened = true;
  });
  const Event after = stream.record();
  EXPECT_FALSE(after.done());
  EXPECT_FALSE(opened);
  gate.open();
  after.wait();
  EXPECT_TRUE(opened);
}

TEST_P(Streams, ExceptionsOfCallsGoToTheSink) {
  stream.call([] { throw std::runtime_error("spilt milk"); });
  bool later = false;
  stream.call([&] { later = true; });
  stream.synchronize();
  EXPECT_TRUE(later);
  const auto reports = take_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_NE(reports[0].message.find("spilt milk"), std::string::npos) << reports[0].message;
  EXPECT_NE(reports[0].where.find("Stream::call"), std::string::npos) << reports[0].where;
}

TEST_P(Streams, EmptyFunctionsAreRefused) { EXPECT_ERROR(stream.call({}), Errc::invalid_argument, "function"); }

// Soon after, not before: CUDA forbids driver calls in host functions, so there another thread ends what one owns.
TEST_P(Streams, WhatACallOwnsEnds) {
  auto owned = std::make_shared<int>(1);
  const std::weak_ptr<int> observed = owned;
  stream.call([moved = std::move(owned)] { (void)*moved; });
  stream.synchronize();
  while (!observed.expired()) std::this_thread::yield();  // the watchdog ends it otherwise
}

TEST_P(Streams, DefaultEventsAreDone) {
  const Event none;
  EXPECT_TRUE(none.done());
  none.wait();
  EXPECT_EQ(none.wait(0ns), WaitStatus::ready);
  stream.wait(none);
  EXPECT_TRUE(stream.done());
}

TEST_P(Streams, OwnEventsAndPastEventsHoldNothing) {
  Gate gate;
  gate.hold(stream);
  stream.wait(stream.record());
  gate.open();
  stream.synchronize();
  const Event past = stream.record();
  past.wait();
  const Stream other(device());
  other.wait(past);
  EXPECT_TRUE(other.done());
}

TEST_P(Streams, WaitForEveryOtherDevice) {
  for (const Device& theirs : devices()) {
    const Stream other(theirs);
    Gate gate;
    gate.hold(other);
    stream.wait(other.record());
    EXPECT_FALSE(stream.done()) << theirs.id();
    gate.open();
    stream.synchronize();
    EXPECT_TRUE(other.done()) << theirs.id();
  }
}

TEST_P(Streams, EachMayWaitForTheOthersPast) {
  const Stream other(device());
  Gate gate;
  gate.hold(stream);
  gate.hold(other);
  const Event here = stream.record();
  const Event there = other.record();
  stream.wait(there);
  other.wait(here);
  gate.open();
  stream.synchronize();
  other.synchronize();
}

TEST_P(Streams, PendingWorkOutlivesItsHandles) {
  std::atomic<int> ran{0};
  Event end;
  Gate gate;
  {
    const Stream own(device());
    gate.hold(own);
    own.call([&] { ++ran; });
    end = own.record();
  }
  EXPECT_FALSE(end.done());
  gate.open();
  end.wait();
  EXPECT_EQ(ran, 1);
}

TEST_P(Streams, PendingWorkRunsWithoutAnyHandle) {
  std::promise<void> ran;
  Gate gate;
  {
    const Stream own(device());
    gate.hold(own);
    own.call([&] { ran.set_value(); });
  }
  gate.open();
  ran.get_future().wait();  // the watchdog ends a run in which this never happens
}

TEST_P(Streams, MovedFromOnesSayClosed) {
  const Gate gate;
  Stream own(device());
  const Stream taken = std::move(own);
  // NOLINTBEGIN(bugprone-use-after-move): that is the subject
  EXPECT_ERROR(own.record(), Errc::closed, "Stream");
  EXPECT_ERROR(own.wait(gate.event()), Errc::closed, "Stream");
  EXPECT_ERROR(own.synchronize(), Errc::closed, "Stream");
  EXPECT_ERROR(own.synchronize(1ns), Errc::closed, "Stream");
  EXPECT_ERROR(own.done(), Errc::closed, "Stream");
  EXPECT_ERROR(own.flush(), Errc::closed, "Stream");
  EXPECT_ERROR(own.call([] {}), Errc::closed, "Stream");
  // NOLINTEND(bugprone-use-after-move)
  taken.synchronize();
}

TEST_P(Streams, ManyEventsOfManyStreams) {
  std::vector<Stream> streams;
  std::vector<Event> events;
  Gate gate;
  for (int i = 0; i < 12; ++i) {
    const Stream& next = streams.emplace_back(device());
    if (events.empty()) gate.hold(next);
    for (const Event& event : events) next.wait(event);
    events.push_back(next.record());
  }
  for (const Event& event : events) EXPECT_FALSE(event.done());
  gate.open();
  events.back().wait();
  for (const Event& event : events) EXPECT_TRUE(event.done());
}

}  // namespace
}  // namespace weir::test
