// SPDX-License-Identifier: Apache-2.0
// Buffers that were sent behind work of another process, which does that work, is killed before it, or stands still.

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "channel_processes.hpp"
#include "fixture.hpp"
#include "sink.hpp"
#include "time_limits.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;

const std::chrono::seconds limit = answer_limit();

class ChannelPoints : public OnMemory {
 protected:
  /// A buffer of the child's, and what it held when `stream` got there.
  struct Taken {
    Buffer buffer;
    Bytes seen;
  };
  static void take(ipc::Channel& channel, const Stream& into, std::vector<Taken>& taken) {
    Buffer buffer = channel.receive(into, limit).buffer;
    Taken& next = taken.emplace_back();
    next.seen.resize(buffer.size());
    buffer.copy_to(std::span(next.seen), into);
    next.buffer = std::move(buffer);
  }
};
WEIR_FOR_EACH_EXPORTABLE(ChannelPoints);

TEST_P(ChannelPoints, TheStreamWaitsForAnotherProcess) {
  constexpr std::size_t count = 20;
  ChannelChild child("late", device(), count);
  ipc::Channel channel = child.connect();
  ASSERT_EQ(child.line(), "sent");
  std::vector<Taken> taken;
  taken.reserve(count);
  for (std::size_t i = 0; i < count; ++i) take(channel, stream, taken);
  EXPECT_EQ(stream.record().wait(5ms), WaitStatus::timeout);
  child.say("go");
  stream.synchronize();
  for (std::uint32_t i = 0; i < count; ++i) EXPECT_BYTES(taken[i].seen, pattern(500 + i, i));
  EXPECT_EQ(child.line(), "done");
  EXPECT_EQ(child.wait(), 0);
}

TEST_P(ChannelPoints, AKilledProcessEndsEveryWait) {
  ChannelChild child("late", device(), 3);
  ipc::Channel channel = child.connect();
  ASSERT_EQ(child.line(), "sent");
  std::vector<Taken> taken;
  taken.reserve(1);
  const Stream waiting(device());
  take(channel, waiting, taken);
  const Event end = waiting.record();
  EXPECT_EQ(end.wait(5ms), WaitStatus::timeout);
  child.kill();
  EXPECT_EQ(end.wait(limit), WaitStatus::lost);
  EXPECT_ERROR(waiting.synchronize(), Errc::peer_gone, "ended before its work");
  EXPECT_EQ(await_reports(2).size(), 2U) << "the point, and the stream that waited for it";
  for (int i = 0; i < 2; ++i) EXPECT_ERROR(channel.receive(stream, limit), Errc::peer_gone, "ended before its work");
  EXPECT_ERROR(channel.receive(stream, limit), Errc::peer_gone, "the other process is gone");
  EXPECT_BYTES(read(filled(pattern(300, 1)), stream), pattern(300, 1)) << "the stream that did not wait goes on";
  EXPECT_EQ(channel.stats().borrowed, 1U);
}

TEST_P(ChannelPoints, AStoppedProcessKeepsNobodyForLonger) {
  ChannelChild child("late", device(), 2);
  ipc::Channel channel = child.connect();
  ASSERT_EQ(child.line(), "sent");
  child.stop();
  std::vector<Taken> taken;
  taken.reserve(2);
  const Stream waiting(device());
  take(channel, waiting, taken);
  take(channel, waiting, taken);
  const Event end = waiting.record();
  EXPECT_EQ(waiting.synchronize(5ms), WaitStatus::timeout);
  EXPECT_EQ(waiting.synchronize(0ms), WaitStatus::timeout);
  EXPECT_BYTES(read(filled(pattern(300, 1)), stream), pattern(300, 1));
  channel.close();
  child.kill();
  EXPECT_EQ(end.wait(limit), WaitStatus::lost);
  EXPECT_EQ(await_reports(2).size(), 2U);
}

}  // namespace
}  // namespace weir::test
