// SPDX-License-Identifier: Apache-2.0
// The front half of every stream against a back half driven by hand: what it numbers, holds back, marks and loses.

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <utility>

#include "expect.hpp"
#include "sink.hpp"
#include "stream/fake_stream.hpp"
#include "stream/other_device.hpp"
#include "threads.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using Lines = std::vector<std::string>;

TEST(StreamState, NumbersAndSubmitsAtOnce) {
  const Fake s;
  EXPECT_EQ(s->position(), 0U);
  EXPECT_TRUE(s->reached(0));
  EXPECT_EQ(s->put(FakeStream::fill()), 1U);
  EXPECT_EQ(s->put(FakeStream::fill()), 2U);
  EXPECT_EQ(s->put(spi::CopyOp{{}, {}, 1}), 3U);
  EXPECT_EQ(s->position(), 3U);
  EXPECT_TRUE(s->submitted(3));
  EXPECT_FALSE(s->submitted(4));
  EXPECT_EQ(s->log(), (Lines{"fill 1", "fill 2", "copy 3"}));
}

TEST(StreamState, AsksOnlyWhatItDoesNotKnow) {
  const Fake s;
  s->put(FakeStream::fill());
  EXPECT_FALSE(s->reached(1));
  EXPECT_FALSE(s->reached(1));
  EXPECT_EQ(s->log(), (Lines{"fill 1", "mark 1", "flush"})) << "marked once, flushed once";
  s->finish(1);
  EXPECT_TRUE(s->reached(1));
  s->break_device();
  EXPECT_TRUE(s->reached(1)) << "known already";
  EXPECT_EQ(s->wait_for(1, 0ns), WaitStatus::ready);
}

TEST(StreamState, WithoutPrefetchesNoneIsTaken) {
  const Fake s;
  s->put(FakeStream::fill());
  EXPECT_ERROR(s->put(spi::PrefetchOp{{}, 1, &host_device().state()}), Errc::unsupported, "does not move memory");
  s->put(FakeStream::fill());
  EXPECT_EQ(s->log(), (Lines{"fill 1", "fill 3"})) << "the stream goes on";
}

TEST(StreamState, WaitsAreTruthful) {
  const Fake s;
  s->put(FakeStream::fill());
  EXPECT_EQ(s->wait_for(1, 0ns), WaitStatus::timeout);
  EXPECT_EQ(s->wait_for(1, 2ms), WaitStatus::timeout);
  EXPECT_FALSE(s->reached(1));
  Thread device([&] { s->finish(1); });
  EXPECT_EQ(s->wait_for(1, -1ns), WaitStatus::ready);
  device.join();
}

TEST(StreamState, HoldsBackBehindAWaitThatTheDriverCannotDo) {
  const Fake s, other;
  other->put(FakeStream::fill());
  s->put(FakeStream::fill());
  EXPECT_EQ(s->put(other->wait_op(1)), 2U);
  EXPECT_EQ(s->put(FakeStream::fill()), 3U);
  EXPECT_FALSE(s->submitted(2));
  EXPECT_FALSE(s->reached(3));
  EXPECT_EQ(s->wait_for(3, 2ms), WaitStatus::timeout);
  other->finish(1);
  EXPECT_TRUE(s->wait_submitted(3));
  s->finish(3);
  EXPECT_EQ(s->wait_for(3, -1ns), WaitStatus::ready);
  for (const std::string& line : s->log()) EXPECT_EQ(line.find("wait"), std::string::npos) << line;
}

TEST(StreamState, GivesTheDriverWaitsOnlyWhenTheirPointIsSubmitted) {
  const Fake gate, other, s({.waits_natively = true});
  gate->put(FakeStream::fill());
  other->put(gate->wait_op(1));
  other->put(FakeStream::fill());
  s->put(other->wait_op(2));
  s->put(FakeStream::fill());
  EXPECT_EQ(s->wait_for(2, 2ms), WaitStatus::timeout);
  EXPECT_FALSE(s->submitted(1));
  gate->finish(1);
  EXPECT_TRUE(s->wait_submitted(2));
  EXPECT_EQ(s->log(), (Lines{"wait 2", "fill 2"})) << "and not later than that: other is not finished";
  EXPECT_EQ(other->log().back(), "flush") << "what a driver waits for was marked and flushed";
}

TEST(StreamState, NativeWaitsAreMarkedBeforeAndGivenAtOnce) {
  const Fake other, s({.waits_natively = true});
  other->put(FakeStream::fill());
  EXPECT_EQ(s->put(other->wait_op(1)), 1U);
  EXPECT_TRUE(s->submitted(1));
  EXPECT_EQ(other->log(), (Lines{"fill 1", "mark 1", "flush"}));
  EXPECT_EQ(s->log(), Lines{"wait 1"});
}

TEST(StreamState, NativeWaitsAreMarkedBeforeAlsoWhenTheirPointIsSubmittedMeanwhile) {
  const Fake other;
  std::promise<void> go;
  other->put(FakeStream::call([&] { go.get_future().wait(); }));
  other->put(FakeStream::fill());
  int asked = 0;
  const Fake s({.waits_natively = true, .on_waits_natively = [&] {
                  if (++asked != 2) return;  // between the two looks at the other stream
                  go.set_value();
                  EXPECT_TRUE(other->wait_submitted(2));
                }});
  s->put(other->wait_op(2));
  s->await_lines(1);
  EXPECT_EQ(other->log(), (Lines{"fill 2", "mark 2", "flush"}));
  EXPECT_EQ(s->log(), Lines{"wait 2"});
}

TEST(StreamState, GivenOutWhileAWaitIsPutTakesItWhenItsPointIsSubmitted) {
  const Fake gate, other;
  gate->put(FakeStream::fill());
  other->put(gate->wait_op(1));
  bool asked = false;
  Fake s({.waits_natively = true});
  s->behaviour.on_waits_natively = [&] {
    if (std::exchange(asked, true)) return;
    s->behaviour.foreign = true;
  };
  {
    const Thread waits([&] { s->put(other->wait_op(1)); });
    while (s->issued() == 0) std::this_thread::yield();
    EXPECT_EQ(s->position(), 2U) << "comes after whoever has the turn";
    EXPECT_FALSE(s->submitted(1));
    gate->finish(1);
  }
  EXPECT_TRUE(other->submitted(1));
  EXPECT_TRUE(s->wait_submitted(2));
  EXPECT_EQ(s->log().front(), "wait 1");
}

TEST(StreamState, WaitsForThePastPutNothing) {
  const Fake other, s;
  other->put(FakeStream::fill());
  other->finish(1);
  s->put(FakeStream::fill());
  EXPECT_EQ(s->put(other->wait_op(1)), 1U);
  EXPECT_EQ(s->put(s->wait_op(1)), 1U) << "its own point";
  EXPECT_EQ(s->position(), 1U);
}

TEST(StreamState, CallsRunAfterEverythingBeforeThem) {
  const Fake s;
  std::promise<std::thread::id> ran;
  auto where = ran.get_future();
  s->put(FakeStream::fill());
  s->put(FakeStream::call([&] { ran.set_value(std::this_thread::get_id()); }));
  s->put(FakeStream::fill());
  EXPECT_EQ(s->wait_for(2, 2ms), WaitStatus::timeout);
  EXPECT_FALSE(s->submitted(2));
  s->finish(1);
  EXPECT_NE(where.get(), std::this_thread::get_id());
  EXPECT_TRUE(s->wait_submitted(3));
  EXPECT_TRUE(s->reached(2)) << "a call that ran is complete without asking the driver";
  EXPECT_FALSE(s->reached(3));
}

TEST(StreamState, NativeCallsGoToTheDriver) {
  const Fake s({.calls_natively = true});
  bool ran = false;
  s->put(FakeStream::call([&] { ran = true; }));
  EXPECT_TRUE(ran);
  EXPECT_EQ(s->log(), Lines{"call 1"});
}

TEST(StreamState, RefusalsPutNothingAndEndNothing) {
  const Fake s;
  s->put(FakeStream::fill());
  s->refuse_next();
  EXPECT_ERROR(s->put(FakeStream::fill()), Errc::unsupported, "refused by hand");
  EXPECT_FALSE(s->lost());
  const auto value = s->put(FakeStream::fill());
  s->finish(value);
  EXPECT_TRUE(s->reached(value));
  EXPECT_EQ(s->wait_for(s->position(), -1ns), WaitStatus::ready);
  EXPECT_EQ(s->log().front(), "fill 1");
}

TEST(StreamState, LostOnesSaySoOnceAndThrowEverAfter) {
  const Fake s;
  s->put(FakeStream::fill());
  s->break_device();
  EXPECT_FALSE(s->reached(1));
  EXPECT_TRUE(s->lost());
  EXPECT_EQ(s->wait_for(1, -1ns), WaitStatus::lost);
  EXPECT_ERROR(s->put(FakeStream::fill()), Errc::device_lost, "broken by hand");
  EXPECT_ERROR(s->throw_if_lost(), Errc::device_lost, "host:0");
  const auto reports = await_reports(1);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_NE(reports[0].message.find("broken by hand"), std::string::npos) << reports[0].message;
}

// A stream that its back half loses inside of a call is reported after that call, so that the sink may call the stream.
TEST(StreamState, TheSinkMayCallTheStreamThatItIsToldOf) {
  static FakeStream* lost;
  static std::atomic<int> told;
  told = 0;
  FakeStream::Behaviour behaviour;
  behaviour.on_mark = [] { lost->lose_by_hand(); };
  const Fake s(behaviour);
  lost = s.operator->();
  const auto before = set_failure_sink([](const Failure&) noexcept {
    try {
      lost->flush();          // in a turn
    } catch (const Error&) {  // it is lost
    }
    ++told;
  });
  s->put(FakeStream::fill());
  EXPECT_FALSE(s->reached(s->position()));
  (void)set_failure_sink(before);
  EXPECT_TRUE(s->lost());
  EXPECT_EQ(told, 1);
}

TEST(StreamState, AHostWaitThatFindsTheDeviceBrokenReturnsLost) {
  const Fake s;
  s->put(FakeStream::fill());
  Thread device([&] {
    s->await_lines(3);  // fill, mark, flush: the waiter is on its way
    s->break_device();
  });
  EXPECT_EQ(s->wait_for(1, -1ns), WaitStatus::lost);
  device.join();
  EXPECT_EQ(await_reports(1).size(), 1U);
}

// What the device goes on with may be used again when it is over, and was never done.
TEST(StreamState, ALostOneWhoseDeviceGoesOnReachesNothing) {
  const Fake s;
  s->put(FakeStream::fill());
  s->finish(1);
  EXPECT_TRUE(s->reached(1));
  s->put(FakeStream::fill());
  EXPECT_FALSE(s->reached(2));
  s->become_unready();
  EXPECT_FALSE(s->finished(2));
  s->finish(2);
  EXPECT_TRUE(s->finished(2));
  EXPECT_FALSE(s->reached(2));
  EXPECT_EQ(s->wait_for(2, -1ns), WaitStatus::lost);
  EXPECT_TRUE(s->reached(1));
  EXPECT_EQ(take_reports().size(), 1U);
}

TEST(StreamState, AHostWaitForALostOneWhoseDeviceGoesOnReturnsLost) {
  const Fake s;
  s->put(FakeStream::fill());
  s->behaviour.on_wait = [&] {
    s->become_unready();
    s->finish(1);
  };
  EXPECT_EQ(s->wait_for(1, -1ns), WaitStatus::lost);
  EXPECT_EQ(take_reports().size(), 1U);
}

TEST(StreamState, AQuestionThatComesBeforeALossReachesNothing) {
  const Fake s;
  s->put(FakeStream::fill());
  s->flush();
  s->behaviour.on_poll = [&] {
    if (s->lost()) return;
    s->become_unready();
    s->finish(1);
  };
  EXPECT_FALSE(s->reached(1));
  EXPECT_FALSE(s->reached(1));
  EXPECT_EQ(take_reports().size(), 1U);
}

TEST(StreamState, WhatWaitsForALostOneIsLostToo) {
  const Fake other, s;
  other->put(FakeStream::fill());
  s->put(other->wait_op(1));
  s->put(FakeStream::fill());
  other->break_device();
  EXPECT_EQ(s->wait_for(2, -1ns), WaitStatus::lost);
  EXPECT_ERROR(s->put(FakeStream::fill()), Errc::device_lost, "broken by hand");
  EXPECT_FALSE(s->wait_submitted(2));
  EXPECT_EQ(await_reports(2).size(), 2U);
  EXPECT_TRUE(s->log().empty()) << "nothing was submitted past the wait";
}

TEST(StreamState, WaitingForALostOneIsRefused) {
  const Fake other, s;
  other->put(FakeStream::fill());
  other->break_device();
  EXPECT_FALSE(other->reached(1));
  EXPECT_ERROR(s->put(other->wait_op(1)), Errc::device_lost, "broken by hand");
  EXPECT_FALSE(s->lost());
  EXPECT_EQ(await_reports(1).size(), 1U);
}

TEST(StreamState, ForeignOnesHaveANewPositionEachTime) {
  const Fake s({.foreign = true});
  const auto first = s->position();
  const auto second = s->position();
  EXPECT_GT(second, first);
  const auto log = s->log();
  ASSERT_GE(log.size(), 2U);
  EXPECT_EQ(log[log.size() - 2], "mark " + std::to_string(second));
  EXPECT_EQ(log.back(), "flush") << "whoever asks later need not use the native stream";
}

TEST(StreamState, ForeignOnesNeverHoldWaitsBack) {
  const Fake other, s({.waits_natively = true, .foreign = true});
  other->put(FakeStream::fill());
  s->put(other->wait_op(1));
  EXPECT_TRUE(s->submitted(1));
  EXPECT_EQ(s->log().front(), "wait 1");
}

// Its native stream was given out: what others put there from now on comes after what was put here.
TEST(StreamState, HoldsNothingBackForOnesOnWhichOthersPutWork) {
  const Fake s;
  std::promise<void> begun, opened;
  s->put(FakeStream::call([&] {
    begun.set_value();
    opened.get_future().wait();
  }));
  begun.get_future().wait();
  s->behaviour.foreign = true;
  EXPECT_EQ(s->position(), 2U) << "whoever closes memory does not wait";
  auto put = std::async(std::launch::async, [&] { return s->put(FakeStream::fill()); });
  EXPECT_EQ(put.wait_for(20ms), std::future_status::timeout);
  opened.set_value();
  EXPECT_TRUE(s->submitted(put.get()));
}

TEST(StreamState, LivesUntilHeldWorkIsDone) {
  const Fake other;
  other->put(FakeStream::fill());
  std::promise<void> ran, ended;
  std::atomic<bool> gone{false};
  {
    const Fake s({.on_end = [&] {
      gone = true;
      ended.set_value();
    }});
    s->put(other->wait_op(1));
    s->put(FakeStream::call([&] { ran.set_value(); }));
    s->finish(1);
  }
  EXPECT_FALSE(gone);
  other->finish(1);
  ran.get_future().wait();
  ended.get_future().wait();
}

// The worker ends what an operation held without the lock and without the turn, which others take, and may put.
TEST(StreamState, WorkIsPutWhileAnOperationEnds) {
  std::promise<void> marking, go_on, ended;
  const Fake s({.on_mark = [&] {
    marking.set_value();
    go_on.get_future().wait();
  }});
  s->put(FakeStream::fill());
  const Fake before;
  before->put(FakeStream::fill());
  s->put(before->wait_op(1));
  auto* gate = new FakeStream;
  std::optional<Thread> asking;
  gate->behaviour.on_end = [&] {
    asking.emplace([&] { (void)s->reached(1); });  // takes the turn to mark
    marking.get_future().wait();
    go_on.set_value();
    EXPECT_EQ(s->put(FakeStream::fill()), 4U);
    ended.set_value();
  };
  gate->put(FakeStream::fill());
  s->put(gate->wait_op(1));
  gate->finish(1);
  gate->release();  // the wait has the last reference, behind another one
  before->finish(1);
  ended.get_future().wait();
  asking->join();
  while (!s->submitted(4)) std::this_thread::yield();
}

// Its native handle is given out while work is held back. From then on it takes waits for another backend as they come.
TEST(StreamState, ThatIsHandedOutMeanwhileTakesAWaitForAnotherBackendAtOnce) {
  const Fake s, first;
  FakeStream* const others = new FakeStream(*new OtherDevice);
  const Stream other{spi::Ref<spi::StreamState>::adopt(others)};
  first->put(FakeStream::fill());
  std::promise<void> waits, opened;
  first->behaviour.on_wait = [&] {
    s->behaviour.foreign = s->behaviour.waits_natively = true;
    waits.set_value();
  };
  s->put(first->wait_op(1));
  waits.get_future().wait();
  others->put(FakeStream::call([&] { opened.get_future().wait(); }));
  {
    const Thread puts([&] { s->put(others->wait_op(1)); });  // the watchdog ends it
    while (s->issued() != 2) std::this_thread::yield();      // until it is held back
    first->finish(1);
  }
  EXPECT_EQ(s->log().back(), "wait 1");
  opened.set_value();
  EXPECT_EQ(others->wait_for(1, std::chrono::nanoseconds{-1}), WaitStatus::ready);
  s->finish(100);
}

TEST(StreamState, ManyThreadsAreNumberedAndNeverOverlap) {
  const Fake s, other;
  other->put(FakeStream::fill());
  constexpr std::size_t threads = 4;
  constexpr std::size_t each = 500;
  std::vector<Thread> putters;
  for (std::size_t t = 0; t < threads; ++t) {
    putters.emplace_back([&, t] {
      for (std::size_t i = 0; i < each; ++i) {
        s->put(FakeStream::fill());
        if (i % 50 == t) (void)s->reached(s->position());
        if (t == 0 && i == each / 2) s->put(other->wait_op(1));
        if (t == 1 && i == each / 2) other->finish(1);
      }
    });
  }
  for (Thread& putter : putters) putter.join();
  const auto last = s->position();
  EXPECT_TRUE(s->wait_submitted(last));
  EXPECT_FALSE(s->overlapped());
  std::uint64_t previous = 0;
  std::size_t fills = 0;
  for (const std::string& line : s->log()) {
    if (line.rfind("fill ", 0) != 0) continue;
    const auto value = std::stoull(line.substr(5));
    EXPECT_GT(value, previous);
    previous = value;
    ++fills;
  }
  EXPECT_EQ(fills, threads * each);
  s->finish(last);
  EXPECT_EQ(s->wait_for(last, -1ns), WaitStatus::ready);
}

TEST(StreamState, MarksCoverTheirTimeOnly) {
  const Fake s;
  s->put(FakeStream::fill());
  const auto mark = s->mark();
  s->put(FakeStream::fill());
  s->finish(mark);
  EXPECT_TRUE(s->reached(mark));
  EXPECT_FALSE(s->reached(s->position()));
}

// A backend that promises more than it has.
class Boasting final : public spi::StreamState {
 public:
  Boasting() : StreamState(host_device().state()) {}

 private:
  void do_copy(const spi::CopyOp&, std::uint64_t) override {}
  void do_fill(const spi::FillOp&, std::uint64_t) override {}
  void do_copy_region(const spi::RegionOp&, std::uint64_t) override {}
  void do_mark(std::uint64_t value) override { complete(value); }
  void do_flush() override {}
  std::uint64_t do_poll() override { return 0; }
  WaitStatus do_wait_host(std::uint64_t, std::chrono::nanoseconds) override { return WaitStatus::ready; }
  bool calls_natively() const noexcept override { return true; }
  bool waits_natively(const StreamState&) const noexcept override { return true; }
  bool stores_natively() const noexcept override { return true; }
};

TEST(StreamState, ABackendThatPromisesMoreThanItHasIsNamed) {
  const auto s = spi::Ref<spi::StreamState>::adopt(new Boasting);
  const Fake other;
  other->put(FakeStream::fill());
  EXPECT_ERROR(s->put(FakeStream::call([] { ADD_FAILURE() << "was refused"; })), Errc::unsupported,
               "has no native host calls");
  EXPECT_ERROR(s->put(other->wait_op(1)), Errc::unsupported, "has no native waits");
  std::uint64_t word = 0;
  EXPECT_ERROR(s->put(spi::StoreOp{&word, 1}), Errc::unsupported, "does not write words of the host's memory");
  EXPECT_FALSE(s->lost()) << "nothing was put";
  EXPECT_EQ(s->wait_for(s->put(FakeStream::fill()), -1ns), WaitStatus::ready);
}

}  // namespace
}  // namespace weir::test
