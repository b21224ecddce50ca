// SPDX-License-Identifier: Apache-2.0
// What waits for a timeline is called once, in order, when its value has passed; by whoever looks, or by the library.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "sink.hpp"
#include "stream/fake_stream.hpp"
#include "stream/watcher.hpp"
#include "threads.hpp"
#include "weir/spi/points.hpp"

namespace weir::test {
namespace {

/// Writes its number down.
struct Note : spi::Waiter {
  Note(std::vector<int>& list, int mine) : to(list), number(mine) {}
  static void passed(spi::Waiter& waiter, spi::InHand& /*others*/) noexcept {
    auto& self = static_cast<Note&>(waiter);
    self.to.push_back(self.number);
  }
  std::vector<int>& to;
  int number;
};

class Waiting : public testing::Test {
 protected:
  bool wait(Note& note, std::uint64_t value) { return fake->after(value, note, &Note::passed, false); }
  void put(int count) {
    for (int i = 0; i < count; ++i) fake->put(FakeStream::fill());
  }

  std::shared_ptr<std::atomic<bool>> gone = std::make_shared<std::atomic<bool>>(false);
  FakeStream* fake = [this] {
    auto* made = new FakeStream;
    made->behaviour.on_end = [gone = gone] { *gone = true; };  // the library may let go of it after the test
    return made;
  }();
  spi::Ref<spi::StreamState> owner = spi::Ref<spi::StreamState>::adopt(fake);
  std::vector<int> list;
};

TEST_F(Waiting, IsRefusedForWhatIsKnownToHavePassed) {
  put(1);
  fake->finish(1);
  ASSERT_TRUE(fake->reached(1));
  Note note(list, 1);
  EXPECT_FALSE(wait(note, 1));
  EXPECT_FALSE(note.stands());
  EXPECT_EQ(fake->settle(), 0U);
}

// Nobody names the timeline any more, and nothing stands in its queue yet: another point's turn comes first.
TEST_F(Waiting, PointsKeepWhatTheCallerLent) {
  put(1);
  fake->finish(1);
  spi::Points points;
  points.add(*fake, 1, spi::Points::How::lend);
  points.keep();
  owner = {};
  EXPECT_FALSE(*gone);
  points.clear();
  while (!*gone) std::this_thread::yield();
}

TEST_F(Waiting, PointsThatWereLentAndAreOverLeaveNothing) {
  put(1);
  fake->finish(1);
  spi::Points points;
  points.add(*fake, 1, spi::Points::How::lend);
  points.clear();
  EXPECT_FALSE(*gone);
  owner = {};
  while (!*gone) std::this_thread::yield();
}

TEST_F(Waiting, GoesInTheOrderOfTheValues) {
  put(4);
  Note a(list, 3), b(list, 1), c(list, 4), d(list, 2);
  EXPECT_TRUE(wait(a, 3) && wait(b, 1) && wait(c, 4) && wait(d, 2));
  EXPECT_EQ(fake->settle(), 0U);
  fake->finish(3);
  EXPECT_EQ(fake->settle(2), 2U) << "no more than asked for";
  EXPECT_EQ(list, (std::vector<int>{1, 2}));
  EXPECT_TRUE(a.stands());
  EXPECT_FALSE(b.stands());
  EXPECT_EQ(fake->settle(), 1U);
  EXPECT_EQ(list, (std::vector<int>{1, 2, 3}));
  fake->finish(4);
  EXPECT_EQ(fake->settle(), 1U);
  EXPECT_EQ(list.back(), 4);
}

// Those of one value that come in a row stand in one place, which must not change anything.
TEST_F(Waiting, OfOneValueComeInARowOrNot) {
  put(3);
  std::vector<std::unique_ptr<Note>> notes;
  for (const std::uint64_t value : {2U, 2U, 2U, 1U, 2U, 2U, 3U, 3U}) {
    notes.push_back(std::make_unique<Note>(list, static_cast<int>(value)));
    EXPECT_TRUE(wait(*notes.back(), value));
  }
  fake->finish(1);
  EXPECT_EQ(fake->settle(), 1U);
  fake->finish(2);
  EXPECT_EQ(fake->settle(2), 2U) << "a part of a row";
  EXPECT_EQ(fake->settle(), 3U);
  EXPECT_EQ(list, (std::vector<int>{1, 2, 2, 2, 2, 2}));
  notes.push_back(std::make_unique<Note>(list, 4));
  fake->put(FakeStream::fill());
  EXPECT_TRUE(wait(*notes.back(), 4));
  fake->finish(3);
  EXPECT_EQ(fake->settle(), 2U);
  EXPECT_TRUE(notes.back()->stands());
  EXPECT_EQ(std::count_if(notes.begin(), notes.end(), [](const auto& note) { return note->stands(); }), 1);
  fake->finish(4);
  EXPECT_EQ(fake->settle(), 1U);
  EXPECT_EQ(list.back(), 4);
}

/// Takes over what it knows how to treat.
struct Greedy : spi::Waiter {
  static void passed(spi::Waiter& waiter, spi::InHand& others) noexcept {
    auto& self = static_cast<Greedy&>(waiter);
    ++self.called;
    while (spi::Waiter* const next = others.next(&Greedy::passed)) {
      EXPECT_EQ(&others.take(), next);
      ++static_cast<Greedy*>(next)->taken;
    }
  }
  int called = 0, taken = 0;
};

TEST_F(Waiting, MayTakeOverWhatPassedTogetherWithIt) {
  put(3);
  std::vector<Greedy> greedy(5);
  Note between(list, 2);
  EXPECT_TRUE(fake->after(1, greedy[0], &Greedy::passed, false));
  EXPECT_TRUE(fake->after(1, greedy[1], &Greedy::passed, false));
  EXPECT_TRUE(wait(between, 2));
  for (std::size_t i = 2; i < 5; ++i) EXPECT_TRUE(fake->after(3, greedy[i], &Greedy::passed, false));
  fake->finish(3);
  EXPECT_EQ(fake->settle(4), 4U) << "those that were taken over count";
  int called = 0, taken = 0;
  for (const Greedy& one : greedy) {
    EXPECT_LE(one.called + one.taken, 1);
    called += one.called;
    taken += one.taken;
  }
  EXPECT_EQ(called, 2) << "the one in between is not theirs";
  EXPECT_EQ(taken, 1);
  EXPECT_EQ(list, std::vector<int>{2});
  EXPECT_EQ(fake->settle(), 2U);
}

TEST_F(Waiting, LookingAsksTheDriverOnceAtMost) {
  put(1000);
  std::vector<std::unique_ptr<Note>> notes;
  for (int i = 0; i < 1000; ++i) {
    notes.push_back(std::make_unique<Note>(list, i));
    EXPECT_TRUE(wait(*notes.back(), static_cast<std::uint64_t>(i) + 1));
  }
  int questions = 0;
  EXPECT_FALSE(fake->reached(1));  // marked
  fake->behaviour.on_poll = [&] { ++questions; };
  EXPECT_EQ(fake->settle(), 0U);
  EXPECT_EQ(questions, 1);
  fake->finish(999);
  EXPECT_EQ(fake->settle(), 999U);
  EXPECT_EQ(questions, 3) << "what passed, and the first that did not";
  fake->finish(1000);
  EXPECT_EQ(fake->settle(), 1U);
}

TEST_F(Waiting, KeepsTheTimelineThatNobodyUsesAnyMore) {
  put(1);
  Note note(list, 1);
  EXPECT_TRUE(wait(note, 1));
  EXPECT_FALSE(fake->closed());
  owner = {};
  EXPECT_FALSE(*gone);
  EXPECT_TRUE(fake->closed());
  EXPECT_FALSE(fake->try_retain());
  fake->finish(1);
  EXPECT_EQ(fake->settle(), 1U);
  EXPECT_TRUE(*gone);
}

TEST_F(Waiting, MayStandInAnotherQueueAfterwards) {
  auto* other = new FakeStream;
  const auto owner_of_other = spi::Ref<spi::StreamState>::adopt(other);
  put(1);
  other->put(FakeStream::fill());
  struct Twice : spi::Waiter {
    FakeStream* next;
    bool done = false;
  } twice;
  twice.next = other;
  const spi::Waiter::Passed passed = [](spi::Waiter& waiter, spi::InHand& /*others*/) noexcept {
    auto& self = static_cast<Twice&>(waiter);
    FakeStream* const next = std::exchange(self.next, nullptr);
    const auto again = [](spi::Waiter& at_last, spi::InHand& /*others*/) noexcept {
      static_cast<Twice&>(at_last).done = true;
    };
    self.done = next && !next->after(1, self, again, false);
  };
  EXPECT_TRUE(fake->after(1, twice, passed, false));
  fake->finish(1);
  EXPECT_EQ(fake->settle(), 1U);
  EXPECT_FALSE(twice.done);
  other->finish(1);
  EXPECT_EQ(other->settle(), 1U);
  EXPECT_TRUE(twice.done);
}

TEST_F(Waiting, NobodyJoinsOneThatHasGoneToAnotherQueue) {
  auto* other = new FakeStream;
  const auto owner_of_other = spi::Ref<spi::StreamState>::adopt(other);
  put(2);
  for (int i = 0; i < 2; ++i) other->put(FakeStream::fill());
  Note goes(list, 1), comes(list, 2);
  EXPECT_TRUE(wait(goes, 1));
  fake->finish(1);
  EXPECT_EQ(fake->settle(), 1U);
  EXPECT_TRUE(other->after(2, goes, &Note::passed, false));
  EXPECT_TRUE(wait(comes, 2));
  fake->finish(2);
  EXPECT_EQ(fake->settle(), 1U);
  EXPECT_EQ(list, (std::vector<int>{1, 2}));
  other->finish(2);
  EXPECT_EQ(other->settle(), 1U);
}

TEST_F(Waiting, OnALostTimelineEndsWithItsWork) {
  put(2);
  Note note(list, 2);
  EXPECT_TRUE(wait(note, 2));
  fake->break_device();
  EXPECT_FALSE(fake->reached(2));
  EXPECT_TRUE(fake->lost());
  EXPECT_EQ(take_reports().size(), 1U);
  EXPECT_EQ(fake->settle(), 1U) << "nothing runs on a device that is gone";
}

TEST_F(Waiting, IsLookedAfterByTheLibrary) {
  put(2);
  std::atomic<bool> called{false};
  struct Flag : spi::Waiter {
    std::atomic<bool>* to;
  } flag, late;
  flag.to = late.to = &called;
  const auto passed = [](spi::Waiter& waiter, spi::InHand& /*others*/) noexcept {
    *static_cast<Flag&>(waiter).to = true;
  };
  EXPECT_TRUE(fake->after(1, flag, passed, true));
  fake->finish(1);
  while (!called) std::this_thread::yield();
  called = false;
  EXPECT_TRUE(fake->after(2, late, passed, false));
  fake->watch();
  fake->finish(2);
  while (!called) std::this_thread::yield();
  owner = {};
  while (!*gone) std::this_thread::yield();  // the library lets go of it
}

/// Hands itself over to the library's thread again, until a flag is set or it has come round too often since
/// it counts.
struct Recurring : spi::Job {
  static constexpr int most_rounds = 100'000;

  static void go(spi::Job& job) noexcept {
    auto& self = static_cast<Recurring&>(job);
    if (self.counts) ++self.rounds;
    if (!self.flag && self.rounds < most_rounds) return detail::Watcher::get().post(self);
    self.over = true;
  }
  std::atomic<bool> counts{false}, flag{false}, over{false};
  int rounds = 0;
};

TEST_F(Waiting, IsLookedAfterHoweverManyJobsCome) {
  put(1);
  Recurring jobs;
  jobs.run = &Recurring::go;
  struct Flag : spi::Waiter {
    std::atomic<bool>* to;
  } flag;
  flag.to = &jobs.flag;
  const auto passed = [](spi::Waiter& waiter, spi::InHand& /*others*/) noexcept {
    *static_cast<Flag&>(waiter).to = true;
  };
  detail::Watcher::get().post(jobs);
  EXPECT_TRUE(fake->after(1, flag, passed, true));
  fake->finish(1);
  jobs.counts = true;
  while (!jobs.over) std::this_thread::yield();
  EXPECT_LT(jobs.rounds, Recurring::most_rounds);
  while (!jobs.flag) std::this_thread::yield();
  owner = {};
  while (!*gone) std::this_thread::yield();
}

// Ending while others begin: everything is called once, whoever looks.
TEST_F(Waiting, IsCalledOnceHoweverManyLook) {
  constexpr int count = 2000;
  put(count);
  struct Once : spi::Waiter {
    std::atomic<int> calls{0};
  };
  const auto all = std::make_unique<Once[]>(count);
  const auto passed = [](spi::Waiter& waiter, spi::InHand& /*others*/) noexcept { ++static_cast<Once&>(waiter).calls; };
  std::vector<Thread> threads;
  std::atomic<int> refused{0};
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t; i < count; i += 2) {
        const auto value = static_cast<std::uint64_t>(i) + 1;
        if (!fake->after(value, all[static_cast<std::size_t>(i)], passed, i % 7 == 0)) ++refused;
        if (i % 3 == 0) fake->finish(value);
        if (i % 5 == 0) fake->settle();
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  fake->finish(count);
  fake->settle();
  const auto settled = [&] {
    int calls = 0;
    for (int i = 0; i < count; ++i) calls += all[static_cast<std::size_t>(i)].calls;
    return calls == count - refused;
  };
  while (!settled()) std::this_thread::yield();
  for (int i = 0; i < count; ++i) EXPECT_LE(all[static_cast<std::size_t>(i)].calls, 1);
}

}  // namespace
}  // namespace weir::test
