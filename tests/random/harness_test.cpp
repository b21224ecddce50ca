// SPDX-License-Identifier: Apache-2.0
// Whether the random programs would notice: the model refuses what is undefined, a step that is left out on
// purpose is found as wrong bytes or as a hang, and failing programs become short.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "generator.hpp"
#include "model.hpp"
#include "runner.hpp"
#include "shrink.hpp"

namespace weir::test::random {
namespace {

using namespace std::chrono_literals;

std::string refusal(std::string_view text) {
  Model model;
  try {
    for (const Op& op : parse(text)) model.apply(op);
  } catch (const Undefined& undefined) {
    return undefined.why;
  }
  return {};
}

/// Two streams, one behind a gate, and memory that is handed out again.
const std::string scene =
    "0 stream s1 host:0\n"
    "0 stream s2 host:0\n"
    "0 resource r3 host:0 pageable plain passed\n"
    "0 alloc b4 r3 1000 256 s1\n"
    "0 write b4 0 1000 4 s1\n"
    "0 sync s1\n"
    "0 gate g0\n"
    "0 hold s2 g0\n";

TEST(ProgramText, ComesBackTheSame) {
  std::set<Verb> verbs;
  constexpr auto all = static_cast<std::size_t>(Verb::lose);  // but that one, which is for this file
  for (std::uint64_t seed = 1; seed <= 300 || (verbs.size() < all && seed <= 3000); ++seed) {
    const Program program = generate(seed, few_memories());
    EXPECT_EQ(parse(to_text(program)), program) << seed;
    EXPECT_EQ(generate(seed, few_memories()), program) << seed;
    EXPECT_EQ(defined_part(program), program) << seed;
    for (const Op& op : program) verbs.insert(op.verb);
  }
  EXPECT_EQ(verbs.size(), all);
}

TEST(ProgramText, RefusesOtherText) {
  for (const char* text : {"0", "2 meet", "0 dance", "0 sync", "0 sync b1", "0 sync s", "0 sync s1 s2", "0 open gx",
                           "x meet", "0 alloc b1 r1 many 256 s1"}) {
    EXPECT_THROW((void)parse(text), std::invalid_argument) << text;
  }
  EXPECT_TRUE(parse("\n# a remark\n").empty());
}

TEST(ModelRefuses, AccessesWithoutOrder) {
  const std::string write = scene + "0 fill b4 0 500 1 9 s2\n";
  EXPECT_EQ(refusal(write), "");
  EXPECT_NE(refusal(write + "0 read b4 0 1000 s1\n"), "");
  EXPECT_NE(refusal(write + "0 write b4 499 2 7 s1\n"), "");
  EXPECT_NE(refusal(write + "0 peek b4 0 1\n"), "");
  EXPECT_EQ(refusal(write + "0 read b4 500 500 s1\n"), "");
  EXPECT_EQ(refusal(write + "0 record e5 s2\n0 wait s1 e5\n0 read b4 0 1000 s1\n"), "");
  EXPECT_NE(refusal(scene + "0 record e5 s2\n0 fill b4 0 500 1 9 s2\n0 wait s1 e5\n0 read b4 0 1000 s1\n"), "");
  EXPECT_EQ(refusal(scene + "0 read b4 0 1000 s2\n0 read b4 0 1000 s1\n"), "");
  EXPECT_NE(refusal(scene + "0 read b4 0 1000 s2\n0 poke b4 999 1 9\n"), "");
}

TEST(ModelRefuses, OtherProcessesWithoutAMeeting) {
  const std::string both = scene +
                           "1 stream s6 host:0\n0 resource r7 host:0 shared exportable fresh\n"
                           "0 alloc b8 r7 64 256 s1\n0 write b8 0 64 8 s1\n0 send x9 b8 s1 1\n1 receive b10 x9 s6\n";
  EXPECT_EQ(refusal(both + "1 read b10 0 64 s6\n"), "");
  EXPECT_NE(refusal(both + "0 write b8 0 64 8 s1\n1 read b10 0 64 s6\n"), "");
  EXPECT_NE(refusal(both + "1 write b10 0 64 8 s6\n0 read b8 0 64 s1\n"), "");
  EXPECT_NE(refusal(both + "1 write b10 0 64 8 s6\n0 meet\n0 read b8 0 64 s1\n"), "");
  EXPECT_EQ(refusal(both + "1 write b10 0 64 8 s6\n1 sync s6\n0 meet\n0 read b8 0 64 s1\n"), "");
}

TEST(ModelRefuses, WhatAChannelDoesNotCarry) {
  const std::string both = scene +
                           "1 stream s6 host:0\n0 resource r7 host:0 shared exportable pool_passed\n"
                           "0 alloc b8 r7 64 256 s1\n0 write b8 0 64 8 s1\n0 connect c9 4\n"
                           "0 pack p10 c9 b8 11 read_only\n0 post c9 s1\n";
  const std::string take = "1 take b12 p10 s6\n";
  EXPECT_EQ(refusal(both + take + "1 read b12 0 64 s6\n"), "");
  EXPECT_NE(refusal(both + take + "1 write b12 0 64 9 s6\n"), "");
  EXPECT_NE(refusal(both + take + take), "");
  EXPECT_NE(refusal(both + "0 take b12 p10 s1\n"), "");
  EXPECT_EQ(refusal(both + "0 hang c9\n" + take), "");
  EXPECT_NE(refusal(both + "1 hang c9\n" + take), "");
  const std::string back = both + take + "1 pack p13 c9 b12 14 read_only\n1 post c9 s6\n";
  EXPECT_NE(refusal(back + "0 hang c9\n"), "") << "it may be too early";
  EXPECT_EQ(refusal(back + "0 meet\n0 hang c9\n"), "");
  EXPECT_EQ(refusal(back + "0 take b14 p13 s1\n0 hang c9\n"), "");
  EXPECT_NE(refusal(both + "1 hang c9\n0 pack p13 c9 b8 14 writable\n"), "");
  EXPECT_NE(refusal(both + "0 pack p13 c9 b4 14 writable\n"), "");
  std::string more = both;
  for (const char* number : {"13", "14", "15"}) more += std::string("0 pack p") + number + " c9 b8 1 writable\n";
  EXPECT_NE(refusal(more + "0 post c9 s1\n"), "") << "three of four may be under way";
  EXPECT_EQ(refusal(more + take + "0 post c9 s1\n"), "");
  EXPECT_NE(refusal(more + "1 take b16 p13 s6\n"), "");
}

TEST(ModelRefuses, WhatTheDeadLeaveUndone) {
  const std::string behind =
      "0 stream s1 host:0\n1 stream s2 host:0\n1 resource r3 host:0 shared exportable fresh\n"
      "1 alloc b4 r3 64 256 s2\n1 gate g0\n1 hold s2 g0\n1 write b4 0 64 5 s2\n"
      "1 connect c6 4\n1 pack p7 c6 b4 8 writable\n1 post c6 s2\n";
  EXPECT_EQ(refusal(behind + "1 die\n0 miss p7 s1\n"), "");
  EXPECT_NE(refusal(behind + "1 die\n0 take b9 p7 s1\n"), "");
  EXPECT_NE(refusal(behind + "0 take b9 p7 s1\n1 die\n"), "");
  EXPECT_NE(refusal(behind + "0 miss p7 s1\n"), "");
  EXPECT_EQ(refusal(behind + "1 open g0\n1 sync s2\n0 take b9 p7 s1\n1 die\n0 read b9 0 64 s1\n"), "");
  EXPECT_NE(refusal(behind + "1 open g0\n0 take b9 p7 s1\n1 die\n"), "") << "nobody knows that it was written";
  EXPECT_NE(refusal(behind + "1 die\n1 sync s2\n"), "");
  EXPECT_NE(refusal(behind + "1 die\n0 meet\n"), "");
  EXPECT_NE(refusal(behind + "0 die\n"), "");
  const std::string passed_on =
      "0 stream s1 host:0\n1 stream s2 host:0\n0 resource r3 host:0 shared exportable fresh\n"
      "0 alloc b4 r3 64 256 s1\n0 write b4 0 64 5 s1\n0 connect c6 4\n0 pack p7 c6 b4 8 writable\n0 post c6 s1\n"
      "1 take b9 p7 s2\n1 pack p10 c6 b9 11 writable\n1 post c6 s2\n";
  EXPECT_NE(refusal(passed_on + "1 die\n0 take b12 p10 s1\n"), "") << "it may not have told of the work";
  EXPECT_EQ(refusal(passed_on + "1 sync s2\n1 die\n0 take b12 p10 s1\n"), "");
  const std::string to_the_dead =
      "0 stream s1 host:0\n0 resource r3 host:0 shared exportable fresh\n0 alloc b4 r3 64 256 s1\n"
      "0 write b4 0 64 5 s1\n0 sync s1\n0 connect c6 4\n";
  EXPECT_EQ(refusal(to_the_dead + "1 die\n"), "");
  for (const char* const sent : {"0 pack p7 c6 b4 8 writable\n0 post c6 s1\n", "0 send x7 b4 s1 1\n"}) {
    EXPECT_NE(refusal(to_the_dead + sent + "1 die\n"), "") << "it may be too early";
    EXPECT_EQ(refusal(to_the_dead + sent + "0 meet\n1 die\n"), "");
  }
}

TEST(ModelRefuses, WaitingBehindAClosedGate) {
  EXPECT_NE(refusal(scene + "0 sync s2\n"), "");
  EXPECT_NE(refusal(scene + "0 record e5 s2\n0 await e5\n"), "");
  EXPECT_NE(refusal(scene + "0 record e5 s2\n0 wait s1 e5\n0 sync s1\n"), "");
  EXPECT_NE(refusal(scene + "0 trim r3\n"), "");
  EXPECT_EQ(refusal(scene + "0 open g0\n0 sync s2\n0 trim r3\n"), "");
}

TEST(ModelRefuses, MemoryThatEndsUnderAUseNobodyWasToldOf) {
  const std::string use = scene + "0 call_read b4 0 1000 s2 untold\n";
  EXPECT_NE(refusal(use + "0 close b4\n"), "");
  EXPECT_NE(refusal(use + "0 close_on b4 s1\n"), "");
  EXPECT_EQ(refusal(use + "0 close_on b4 s2\n"), "");
  EXPECT_EQ(refusal(use + "0 share b5 b4\n0 close b4\n"), "");
  EXPECT_EQ(refusal(use + "0 open g0\n0 sync s2\n0 close b4\n"), "");
  EXPECT_EQ(refusal(scene + "0 call_read b4 0 1000 s2 told\n0 close b4\n"), "");
}

std::string play(const std::string& text, std::chrono::seconds limit = 20s) { return Runner(limit).play(parse(text)); }

TEST(Found, NothingInARightProgram) {
  EXPECT_EQ(play(scene + "0 read b4 0 1000 s2\n0 close b4\n0 alloc b5 r3 1000 256 s1\n0 write b5 0 1000 5 s1\n"), "");
}

TEST(Found, NothingInAParcelThatNobodyTakes) {
  EXPECT_EQ(play("0 stream s1 host:0\n0 resource r2 host:0 shared exportable fresh\n0 alloc b3 r2 9 256 s1\n"
                 "0 send x4 b3 s1 1\n0 send x5 b3 s1 0\n"),
            "");
}

/// Reads on s1 what s2 writes behind the gate; the wait in between is modelled but left out.
const std::string without_wait =
    "0 write b4 0 1000 5 s2\n"
    "0 record e6 s2\n"
    "0 lose\n"
    "0 wait s1 e6\n"
    "0 read b4 0 1000 s1\n"
    "0 open g0\n";

TEST(Found, AWaitThatIsLeftOut) {
  const std::string wrong = play(scene + without_wait);
  EXPECT_NE(wrong.find("line 13 `0 read"), std::string::npos) << wrong;
  EXPECT_NE(wrong.find("1000 bytes"), std::string::npos) << wrong;
  EXPECT_NE(wrong.find("the bytes of line 5"), std::string::npos) << wrong;
}

TEST(Found, AWaitThatTheOtherProcessLeavesOut) {
  const std::string wrong = play(
      "1 stream s1 host:0\n1 stream s2 host:0\n1 resource r3 host:0 pageable plain fresh\n1 alloc b4 r3 9 "
      "256 s1\n"
      "1 write b4 0 9 4 s1\n1 sync s1\n1 gate g0\n1 hold s2 g0\n1 write b4 0 9 5 s2\n1 record e6 s2\n1 lose\n"
      "1 wait s1 e6\n1 read b4 0 9 s1\n1 open g0\n");
  EXPECT_NE(wrong.find("process 1, "), std::string::npos) << wrong;
  EXPECT_NE(wrong.find("the bytes of line 5"), std::string::npos) << wrong;
}

TEST(Found, AStreamThatRunsAheadOfItsGate) {
  std::string text = scene + "0 probe s2\n";
  EXPECT_EQ(play(text), "");
  text.insert(text.find("0 hold"), "0 lose\n");
  EXPECT_NE(play(text).find("a gate before it is closed"), std::string::npos);
}

TEST(Found, AHang) {
  const std::string wrong = play(scene + "0 lose\n0 open g0\n0 sync s2\n", 1s);
  EXPECT_NE(wrong.find("ended by signal 6"), std::string::npos) << wrong;
}

TEST(Found, WhatIsNoProgram) { EXPECT_NE(play(scene + "0 sync s2\n").find("not a program"), std::string::npos); }

TEST(Found, AndTheNextProgramIsPlayedAgain) {
  Runner runner(20s);
  EXPECT_NE(runner.play(parse(scene + without_wait)), "");
  EXPECT_EQ(runner.play(parse(scene)), "");
  EXPECT_EQ(runner.play(parse(scene)), "");
}

TEST(Shrinking, LeavesWhatIsNeeded) {
  std::string text = scene;
  for (int i = 0; i < 40; ++i) {
    const std::string n = std::to_string(100 + i);
    text += "0 alloc b" + n + " r3 100 256 s1\n0 write b" + n + " 0 100 " + n + " s1\n";
    if (i == 20) text += without_wait;
    text += "0 close b" + n + "\n";
  }
  Runner runner(20s);
  // The old bytes are there instead. What memory holds that nobody wrote may be right by chance.
  const auto fails = [&](const Program& program) {
    const auto old = std::find(program.begin(), program.end(), parse("0 write b4 0 1000 4 s1").front());
    const auto line = std::to_string(old - program.begin() + 1);
    return runner.play(program).ends_with("found there: the bytes of line " + line);
  };
  const Program program = parse(text);
  ASSERT_TRUE(fails(program));
  const Program shorter = shrink(program, fails, {.time = 1h});
  EXPECT_TRUE(fails(shorter));
  // Streams, resource, alloc, a write to be seen instead, gate, hold, a write, record, lose, wait, read.
  EXPECT_LE(shorter.size(), 13U) << to_text(shorter);
  EXPECT_EQ(defined_part(shorter), shorter);
}

TEST(Shrinking, EndsAtItsLimits) {
  std::size_t asked = 0;
  const Program program = generate(1, few_memories());
  const auto never = [&](const Program&) { return ++asked == 0; };
  EXPECT_EQ(shrink(program, never, {.attempts = 10}), program);
  EXPECT_LE(asked, 10U);
  EXPECT_EQ(shrink(program, never, {.time = 0ms}), program);
}

}  // namespace
}  // namespace weir::test::random
