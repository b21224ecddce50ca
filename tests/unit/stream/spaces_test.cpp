// SPDX-License-Identifier: Apache-2.0
// Waits for memory that another timeline uses, whose bytes nobody wants.

#include <gtest/gtest.h>

#include <thread>

#include "sink.hpp"
#include "stream/fake_stream.hpp"

namespace weir::test {
namespace {

TEST(WaitsForSpace, AreOverWhenTheWorkIsOverThatALostOneGoesOnWith) {
  const Fake other, s;
  other->put(FakeStream::fill());
  s->put(other->space_op(1));
  s->put(FakeStream::fill());
  other->become_unready();
  EXPECT_FALSE(s->submitted(1));
  other->finish(1);
  EXPECT_TRUE(s->wait_submitted(2));
  EXPECT_EQ(s->log().front(), "fill 2");
  EXPECT_EQ(await_reports(1).size(), 1U) << "only the other one is lost";
}

// What the lost one was to use next is not free while another one uses it.
TEST(WaitsForSpace, OutliveTheOneThatWaits) {
  const Fake other, s;
  other->put(FakeStream::fill());
  s->put(other->space_op(1));
  s->lose_by_hand();
  s->finish(1);
  EXPECT_FALSE(s->finished(1));
  EXPECT_TRUE(s->finished(0));
  other->finish(1);
  while (!s->finished(1)) std::this_thread::yield();
  EXPECT_EQ(await_reports(1).size(), 1U);
}

TEST(WaitsForSpace, OutliveTheOneThatIsLostBeforeItBeginsToWait) {
  const Fake peer, other, s;
  peer->put(FakeStream::fill());
  other->put(FakeStream::fill());
  s->put(peer->wait_op(1));
  s->put(other->space_op(1));
  peer->break_device();
  EXPECT_EQ(s->wait_for(2, std::chrono::nanoseconds{-1}), WaitStatus::lost);
  EXPECT_FALSE(s->finished(2));
  EXPECT_FALSE(other->lost());
  other->finish(1);
  while (!s->finished(2)) std::this_thread::yield();
  EXPECT_EQ(await_reports(2).size(), 2U);
}

TEST(WaitsForSpace, OfOneThatEndsUnmarkedAreNeverOver) {
  const Fake peer, s;
  peer->put(FakeStream::fill());
  s->put(peer->wait_op(1));
  {
    const Fake other({.foreign = true});
    other->behaviour.on_mark = [] { throw Error(Errc::unsupported, "refused by hand"); };
    const auto last = other->put(FakeStream::fill());
    other->awaited(last);
    s->put(other->space_op(last));
  }
  peer->break_device();
  EXPECT_EQ(s->wait_for(2, std::chrono::nanoseconds{-1}), WaitStatus::lost);
  EXPECT_EQ(await_reports(3).size(), 3U);
  while (!s->never_known(2)) std::this_thread::yield();
  EXPECT_FALSE(s->finished(2));
  EXPECT_FALSE(s->await_over(2)) << "it does not wait for what nobody will ever know";
  EXPECT_FALSE(s->never_known(1));
}

// Whoever waits for memory after such a one is lost, too.
TEST(WaitsForSpace, OfOneWhoseOwnAreNeverOverAreNeverOver) {
  const Fake peer, s, last;
  peer->put(FakeStream::fill());
  s->put(peer->wait_op(1));
  {
    const Fake other({.foreign = true});
    other->behaviour.on_mark = [] { throw Error(Errc::unsupported, "refused by hand"); };
    const auto value = other->put(FakeStream::fill());
    other->awaited(value);
    s->put(other->space_op(value));
  }
  last->put(s->space_op(2));
  peer->break_device();
  EXPECT_EQ(last->wait_for(1, std::chrono::nanoseconds{-1}), WaitStatus::lost);
  EXPECT_EQ(await_reports(4).size(), 4U);
  EXPECT_FALSE(last->finished(1));
}

}  // namespace
}  // namespace weir::test
