// SPDX-License-Identifier: Apache-2.0
// A ring's schedule, step by step: which frames are sent, kept and taken back. What simulation_test.cpp draws at random
// happens here in one order that everybody can read.
#include "ipc/ring/schedule.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace weir::test {
namespace {

struct Frame {
  std::string name;
  bool lost = false;
};
struct Line {
  std::string got;  // the names of the frames that were sent
  std::size_t room = 100, lent = 0;
  bool left = false, ended = false, greets = true, removed = false;
  std::uint64_t first = UINT64_MAX;
  int failures = 0;
};
using Schedule = detail::ring::Schedule<Frame, std::shared_ptr<Line>>;
using LinePtr = std::shared_ptr<Line>;

struct Loss {};
struct Wire {
  [[nodiscard]] static Line capacity(const LinePtr& line) { return *line; }
  [[nodiscard]] static bool greet(const LinePtr& line, std::uint64_t first) {
    if (line->greets) line->first = first;
    return line->greets;
  }
  template <class At>
  [[nodiscard]] static std::size_t send(const LinePtr& line, At from, At to) {
    for (auto at = from; at != to; ++at) {
      if (at->frame.lost) throw Loss();
    }
    const auto count = static_cast<std::size_t>(to - from);
    for (; from != to; ++from) line->got += from->frame.name;
    line->lent += count;
    line->room -= count;
    return count;
  }
  static void end(const LinePtr& line) { line->removed = true; }
  static void failed(const LinePtr& line) { ++line->failures; }
  [[nodiscard]] static bool is_lost(const Frame& frame) { return frame.lost; }
};

class RingSchedule : public testing::Test {
 protected:
  LinePtr join() {
    auto line = std::make_shared<Line>();
    schedule.add(line);
    return line;
  }
  /// Publish frames named by these letters.
  void publish(const std::string& names) {
    std::vector<Frame> frames;
    for (const char name : names) frames.push_back({std::string(1, name)});
    (void)schedule.publish(std::span(frames), [](Frame&, std::uint64_t) {});
  }
  /// Send and forget what can be. Return the names of the frames that nobody needs any more.
  std::string serve() {
    std::vector<Schedule::Waiting> ended;
    schedule.serve(Wire(), ended);
    schedule.forget(Wire(), ended);
    std::string names;
    for (const auto& each : ended) names += each.frame.name;
    return names;
  }
  /// Take back the oldest frame that is not one of these.
  std::string drop(const std::string& kept) {
    const auto dropped =
        schedule.drop([&](const Frame& frame, const auto&) { return kept.find(frame.name) == std::string::npos; });
    return dropped ? dropped->frame.name : "";
  }

  Schedule schedule{2};
};

TEST_F(RingSchedule, FramesEndWhenEverybodyHasBeenSentThem) {
  const auto one = join(), other = join();
  publish("abc");
  EXPECT_EQ(serve(), "ab") << "each may have two";
  other->lent = 0;
  EXPECT_EQ(serve(), "");
  EXPECT_EQ(other->got, "abc");
  one->lent = 1;
  EXPECT_EQ(serve(), "c");
  EXPECT_EQ(one->got, "abc");
}

TEST_F(RingSchedule, AConsumerBeginsWithTheNextFrame) {
  const auto early = join();
  publish("a");
  (void)serve();
  const auto late = join();
  publish("b");
  (void)serve();
  EXPECT_EQ(late->first, 1U);
  EXPECT_EQ(late->got, "b");
  EXPECT_EQ(early->got, "ab");
}

TEST_F(RingSchedule, NothingIsSentBeforeAGreetingOrWithoutRoom) {
  const auto line = join();
  line->greets = false;
  publish("ab");
  EXPECT_EQ(serve(), "");
  EXPECT_EQ(line->got, "");
  line->greets = true;
  line->room = 1;
  EXPECT_EQ(serve(), "a");
  EXPECT_EQ(line->got, "a");
}

TEST_F(RingSchedule, NoFrameWaitsForAConsumerThatHasLeft) {
  const auto stays = join(), leaves = join();
  publish("ab");
  EXPECT_EQ(serve(), "ab");
  leaves->left = true;  // and still has two
  leaves->room = 0;
  publish("cd");
  stays->lent = 0;
  EXPECT_EQ(serve(), "cd");
  EXPECT_EQ(schedule.consumers().size(), 2U) << "what it has is known";
  leaves->lent = 0;
  (void)serve();
  EXPECT_TRUE(leaves->removed);
  EXPECT_EQ(schedule.consumers().size(), 1U);
}

TEST_F(RingSchedule, NoFrameWaitsForAConsumerThatDied) {
  const auto dies = join();
  publish("abc");
  EXPECT_EQ(serve(), "ab");
  dies->ended = true;
  dies->room = 0;
  EXPECT_EQ(serve(), "c");
  EXPECT_TRUE(dies->removed);
}

TEST_F(RingSchedule, FramesEndAtOnceWithoutConsumers) {
  publish("ab");
  EXPECT_EQ(serve(), "ab");
  EXPECT_EQ(schedule.waiting(), 0U);
}

TEST_F(RingSchedule, TheOldestThatNobodyHoldsIsTakenBack) {
  const auto line = join();
  publish("abcde");
  (void)serve();
  EXPECT_EQ(schedule.waiting(), 3U);
  EXPECT_EQ(drop("c"), "d");
  EXPECT_EQ(drop("ce"), "");
  EXPECT_EQ(schedule.dropped(), 1U);
  line->lent = 0;
  EXPECT_EQ(serve(), "ce");
  EXPECT_EQ(line->got, "abce");
  EXPECT_EQ(schedule.consumers().front().missed, 1U);
}

TEST_F(RingSchedule, LostFramesAreMissedAndOthersSent) {
  const auto one = join(), other = join();
  other->room = 1;
  std::vector<Frame> frames{{"a"}, {"b", true}, {"c"}};
  (void)schedule.publish(std::span(frames), [](Frame&, std::uint64_t) {});
  EXPECT_EQ(serve(), "ba") << "the lost one first, then what everybody has been sent";
  EXPECT_EQ(one->got, "ac");
  EXPECT_EQ(other->got, "a");
  EXPECT_EQ(one->failures, 1);
  EXPECT_EQ(other->failures, 0) << "a loss is reported once";
  EXPECT_EQ(schedule.consumers().front().missed, 1U);
  other->room = 1;
  EXPECT_EQ(serve(), "c");
  EXPECT_EQ(schedule.consumers().back().missed, 1U);
}

TEST_F(RingSchedule, PublishesAllOrNothing) {
  const auto line = join();
  std::vector<Frame> frames{{"a"}, {"b"}};
  EXPECT_THROW((void)schedule.publish(std::span(frames),
                                      [](const Frame& frame, std::uint64_t) {
                                        if (frame.name == "b") throw Loss();
                                      }),
               Loss);
  EXPECT_EQ(schedule.waiting(), 0U);
  EXPECT_EQ(schedule.published(), 0U);
  publish("c");
  EXPECT_EQ(serve(), "c");
  EXPECT_EQ(line->first, 0U);
}

}  // namespace
}  // namespace weir::test
