// SPDX-License-Identifier: Apache-2.0
// Playing: what reaches the resource, in which order, by which threads.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "replay/player.hpp"
#include "replay/read_trace.hpp"
#include "replay/spec.hpp"
#include "weir/adaptors/logging.hpp"

namespace weir::replay {
namespace {

constexpr char header[] = "op,addr,size,stream\n";

Trace trace_of(const char* lines) {
  std::string text = header;
  text += lines;
  return parse_trace(text);
}

/// Many threads pass buffers on: each allocates, the next one uses and frees.
std::string chain(int threads, int rounds) {
  std::string text = "# weir trace 1\thost:0\thost.pageable\n";
  const auto line = [&](int thread, const char* operation, int buffer, int stream) {
    text += "1\t" + std::to_string(thread) + "\th\tr\t" + operation + '\t' + std::to_string(buffer) +
            "\t1000\t256\t" + std::to_string(stream) + "\tok\n";
  };
  for (int round = 0; round < rounds; ++round) {
    for (int thread = 0; thread < threads; ++thread)
      line(thread, "allocate", round * threads + thread, thread);
    for (int thread = 0; thread < threads; ++thread) {
      const int next = (thread + 1) % threads;
      line(next, "use", round * threads + thread, next);
      line((thread + 2) % threads, "close", round * threads + thread, thread);
    }
  }
  return text;
}

TEST(Player, DoesEveryOperationAndLeavesNothing) {
  const Trace trace = trace_of("a,1,1000,0\na,2,500,1\nf,1,1000,1\na,3,7,0\nf,2,500,1\n");
  const auto log = std::make_shared<std::ostringstream>();
  const ResourcePtr resource = make_logging(Spec("host").make(), log);
  Player player(trace, resource, true);
  EXPECT_EQ(player.threads(), 1U);
  EXPECT_EQ(player.streams(), 2U);
  for (int pass = 1; pass <= 2; ++pass) {
    const Pass done = player.play();
    EXPECT_EQ(done.failures, 0U);
    EXPECT_EQ(done.times.size(), 5U);
    EXPECT_EQ(std::ranges::count(done.times, Pass::not_done), 0);
    EXPECT_GT(done.wall, 0U);
    EXPECT_EQ(done.driver_allocations, 3U);
    EXPECT_EQ(resource->stats().live_buffers, 0U);
    EXPECT_EQ(resource->stats().peak_in_use, 1500U);
    EXPECT_EQ(resource->stats().allocations, 3U * static_cast<unsigned>(pass));
  }
  static_cast<LoggingResource&>(*resource).flush();
  const Trace again = parse_trace(log->str());
  EXPECT_EQ(again.peak_live, trace.peak_live);
  EXPECT_EQ(again.buffers, 6U);
  EXPECT_EQ(std::ranges::count(again.operations, Action::use, &Operation::action), 2)
      << "the close on another stream";
}

TEST(Player, CountsWhatAPoolDoes) {
  std::string text = header;
  for (int i = 0; i < 100; ++i) text += "a,1,1000000,0\nf,1,1000000,0\n";
  const Trace trace = parse_trace(text);
  Player player(trace, Spec("pool(host, segment=2MiB)").make(), false);
  const Pass cold = player.play();
  EXPECT_EQ(cold.grown, 1U);
  EXPECT_EQ(cold.driver_allocations, 1U);
  EXPECT_EQ(cold.peak_reserved, std::size_t{2} << 20U);
  const Pass warm = player.play();
  EXPECT_EQ(warm.grown, 0U);
  EXPECT_EQ(warm.driver_allocations, 0U);
  EXPECT_EQ(warm.peak_reserved, std::size_t{2} << 20U);
}

TEST(Player, GoesOnAfterAFailureAndSaysWhichLine) {
  const Trace trace = trace_of("a,1,900000,0\na,2,900000,0\nf,2,900000,0\nf,1,900000,0\na,3,5,0\n");
  for (const bool threads : {false, true}) {
    Player player(trace, Spec("pool(host, limit=1MiB, segment=1MiB)").make(), threads);
    const Pass pass = player.play();
    EXPECT_EQ(pass.failures, 1U);
    ASSERT_EQ(pass.messages.size(), 1U);
    EXPECT_EQ(pass.messages[0].find("line 3: allocate: "), 0U) << pass.messages[0];
    EXPECT_EQ(pass.times[1], Pass::not_done);
    EXPECT_EQ(pass.times[2], Pass::not_done) << "there is nothing to close";
    EXPECT_NE(pass.times[4], Pass::not_done);
  }
}

TEST(Player, KeepsTheOrderOfABuffersOperationsBetweenThreads) {
  const Trace trace = parse_trace(chain(6, 200));
  ASSERT_EQ(trace.threads, 6U);
  const auto log = std::make_shared<std::ostringstream>();
  const ResourcePtr resource = make_logging(Spec("pool(host)").make(), log);
  Player player(trace, resource, true);
  EXPECT_EQ(player.threads(), 6U);
  const Pass pass = player.play();
  EXPECT_EQ(pass.failures, 0U) << (pass.messages.empty() ? "" : pass.messages[0]);
  EXPECT_EQ(std::ranges::count(pass.times, Pass::not_done), 0) << "a buffer was closed before it was there";
  EXPECT_EQ(resource->stats().live_buffers, 0U);
  static_cast<LoggingResource&>(*resource).flush();
  const Trace played = parse_trace(log->str());
  EXPECT_EQ(played.threads, 6U) << "every recorded thread has one of its own";
  EXPECT_EQ(played.buffers, trace.buffers);
  EXPECT_EQ(played.left_open, 0U);
  EXPECT_EQ(std::ranges::count(played.operations, Action::use, &Operation::action),
            static_cast<std::ptrdiff_t>(trace.buffers));
}

TEST(Player, OneThreadIsEnoughWhenAskedFor) {
  const Trace trace = parse_trace(chain(6, 10));
  const auto log = std::make_shared<std::ostringstream>();
  const ResourcePtr resource = make_logging(Spec("host").make(), log);
  Player player(trace, resource, false);
  EXPECT_EQ(player.play().failures, 0U);
  static_cast<LoggingResource&>(*resource).flush();
  EXPECT_EQ(parse_trace(log->str()).threads, 1U);
}

TEST(Player, FoldsMoreThreadsAndStreamsThanItMakes) {
  const Trace trace = parse_trace(chain(300, 2));
  ASSERT_EQ(trace.threads, 300U);
  Player player(trace, Spec("host").make(), true);
  EXPECT_EQ(player.threads(), Player::most_threads);
  EXPECT_EQ(player.streams(), Player::most_streams);
  const Pass pass = player.play();
  EXPECT_EQ(pass.failures, 0U);
  EXPECT_EQ(std::ranges::count(pass.times, Pass::not_done), 0);
}

TEST(Player, TrimsWhenTheTraceDoes) {
  const Trace trace = parse_trace(
      "# weir trace 1\th\tr\n1\t1\th\tr\tallocate\t1\t1000\t256\t1\tok\n"
      "1\t1\th\tr\tclose\t1\t1000\t256\t1\tok\n1\t1\th\tr\ttrim\t0\t0\t0\t0\t9\n");
  const ResourcePtr resource = Spec("pool(host)").make();
  Player player(trace, resource, false);
  const Pass pass = player.play();
  EXPECT_EQ(pass.failures, 0U);
  EXPECT_EQ(pass.given_back, 1U);
  EXPECT_EQ(resource->stats().reserved, 0U);
}

}  // namespace
}  // namespace weir::replay
