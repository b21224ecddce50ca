// SPDX-License-Identifier: Apache-2.0
// Channels: both ends in this process, and one in another.

#include "weir/channel.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "channel_processes.hpp"
#include "fixture.hpp"
#include "loans.hpp"
#include "rounds.hpp"
#include "settle.hpp"
#include "sleeping.hpp"
#include "spawn.hpp"
#include "threads.hpp"
#include "time_limits.hpp"
#include "upstreams.hpp"
#include "weir/ipc.hpp"
#include "weir/memory_resource.hpp"
#include "weir/pool.hpp"
#include "weir/spi/segment.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using ipc::Channel;

const std::chrono::seconds limit = answer_limit();

std::pair<Channel, Channel> make_channels(const ipc::ChannelOptions& options = {}) {
  auto [one, other] = Channel::make_sockets();
  return {Channel(std::move(one), options), Channel(std::move(other), options)};
}

Bytes payload(std::size_t bytes) { return pattern(bytes, 77); }

class Channels : public OnMemory {};
WEIR_FOR_EACH_EXPORTABLE(Channels);

/// A thread that calls a channel until that throws closed. The constructor returns when the thread sleeps.
class Waiting {
 public:
  template <class Call>
  Waiting(Channel& channel, Call call, int before = 0)
      : thread_([this, &channel, call, before] {
          id_ = gettid();
          for (int i = 0; i < before; ++i) call(channel);
          EXPECT_ERROR(call(channel), Errc::closed, "closed");
          id_ = over;
        }) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (!sleeps_or_is_over() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_NE(id_, over) << "it had nothing to wait for";
  }

 private:
  static constexpr pid_t over = -1;
  [[nodiscard]] bool sleeps_or_is_over() const {
    const pid_t id = id_;
    return id <= 0 ? id == over : sleeps(id);
  }

  std::atomic<pid_t> id_{0};
  Thread thread_;
};

TEST_P(Channels, TheReceiverHasTheSameMemory) {
  auto [here, there] = make_channels();
  const Buffer buffer = filled(pattern(5000, 1));
  here.send(buffer, stream, payload(17));
  ipc::Parcel parcel = there.receive(stream, limit);
  EXPECT_EQ(parcel.payload, payload(17));
  EXPECT_EQ(parcel.buffer.size(), 5000U);
  EXPECT_BYTES(read(parcel.buffer, stream), pattern(5000, 1));
  parcel.buffer.fill(std::uint8_t{9}, stream);
  EXPECT_BYTES(read(buffer, stream), repeat(5000, 9));
  EXPECT_EQ(here.stats().lent, 1U);
  EXPECT_EQ(there.stats().borrowed, 1U);
  parcel.buffer.close();
  EXPECT_TRUE(all_comes_back(here));
  EXPECT_EQ(there.stats().borrowed, 0U);
}

TEST_P(Channels, OthersMayStandOverTheResourceOfWhatCame) {
  auto [here, there] = make_channels();
  here.send(filled(pattern(500, 1)), stream);
  const Buffer borrowed = there.receive(stream, limit).buffer;
  expect_serves_others(borrowed.memory_resource(), stream);
  EXPECT_BYTES(read(borrowed, stream), pattern(500, 1));
}

TEST_P(Channels, SlicesCarryTheirOffset) {
  auto [here, there] = make_channels();
  const Buffer buffer = filled(pattern(5000, 1));
  here.send(buffer.slice(333, 1001), stream);
  EXPECT_BYTES(read(there.receive(stream, limit).buffer, stream), part(pattern(5000, 1), 333, 1001));
}

TEST_P(Channels, ASegmentCrossesOnce) {
  auto [here, there] = make_channels();
  const Buffer buffer = filled(pattern(5000, 1));
  std::vector<Buffer> borrowed;
  for (std::size_t i = 0; i < 50; ++i) {
    here.send(buffer.slice(i * 100, 100), stream);
    borrowed.push_back(there.receive(stream, limit).buffer);
  }
  EXPECT_EQ(here.stats().known, 1U);
  EXPECT_EQ(there.stats().opened, 1U);
  const auto* const segment = borrowed.front().location().segment;
  for (std::size_t i = 0; i < borrowed.size(); ++i) {
    EXPECT_EQ(borrowed[i].location().segment, segment);
    EXPECT_BYTES(read(borrowed[i], stream), part(pattern(5000, 1), i * 100, 100));
  }
}

TEST_P(Channels, MemoryStaysLentUntilTheReceiverClosesIt) {
  auto [here, there] = make_channels();
  {
    Buffer buffer = filled(pattern(5000, 1));
    here.send(buffer, stream);
    buffer.close();
  }
  resource->trim(0);
  for (int i = 0; i < 4; ++i) resource->allocate(5000, stream).fill(std::uint8_t{0xff}, stream);
  stream.synchronize();
  EXPECT_BYTES(read(there.receive(stream, limit).buffer, stream), pattern(5000, 1));
  EXPECT_TRUE(all_comes_back(here));
}

TEST_P(Channels, TheReceiversWorkComesBeforeTheEndOfTheLoan) {
  auto [here, there] = make_channels();
  const Stream other(host_device());
  for (const Stream& receiving : {stream, other}) {
    here.send(filled(pattern(5000, 1)), stream);
    Buffer borrowed = there.receive(receiving, limit).buffer;
    Gate gate;
    gate.hold(other);
    borrowed.fill(std::uint8_t{1}, other);
    borrowed.close();
    stream.synchronize();
    EXPECT_EQ(here.stats().lent, 1U);
    EXPECT_EQ(there.stats().borrowed, 1U) << "the buffer went back before the work on it was complete";
    gate.open();
    EXPECT_TRUE(all_comes_back(here));
  }
}

TEST_P(Channels, TheReceiversStreamWaitsForTheSenders) {
  auto [here, there] = make_channels();
  Buffer buffer = filled(repeat(5000, 0x11));
  Gate gate;
  gate.hold(stream);
  write(buffer, pattern(5000, 1), stream);
  here.send(buffer, stream);
  const Stream other(device());
  const Buffer borrowed = there.receive(other, limit).buffer;
  Bytes seen(5000);
  borrowed.copy_to(std::span(seen), other);
  EXPECT_FALSE(other.done());
  gate.open();
  other.synchronize();
  EXPECT_BYTES(seen, pattern(5000, 1));
}

TEST_P(Channels, WorkOfOtherStreamsComesFirst) {
  auto [here, there] = make_channels();
  Buffer buffer = filled(repeat(5000, 0x11));
  const Stream other(host_device());
  Gate gate;
  gate.hold(other);
  buffer.fill(std::uint8_t{0x22}, other);
  here.send(buffer, stream);
  const Buffer borrowed = there.receive(stream, limit).buffer;
  Bytes seen(5000);
  borrowed.copy_to(std::span(seen), stream);
  EXPECT_FALSE(stream.done());
  gate.open();
  stream.synchronize();
  EXPECT_BYTES(seen, repeat(5000, 0x22));
}

// The pool asks for what came back before it says that there is none.
TEST_P(Channels, MemoryThatCameBackIsThereForTheNextRequest) {
  const auto pool = make_pool(resource, {.limit = 32 << 20, .patience = 1ms, .exportable = true});
  auto [here, there] = make_channels();
  for (int i = 0; i < 20; ++i) {
    Buffer most = pool->allocate(20 << 20, stream);
    here.send(most, stream);
    most.close();
    EXPECT_FALSE(pool->try_allocate(20 << 20, stream)) << "it is lent";
    there.receive(stream, limit).buffer.close();
    stream.synchronize();
    await_releases();
  }
}

TEST_P(Channels, ASegmentThatEndsIsClosedByTheReceiver) {
  auto [here, there] = make_channels();
  for (int i = 0; i < 5; ++i) {
    here.send(filled(pattern(300, 1)), stream);
    there.receive(stream, limit).buffer.close();
    EXPECT_TRUE(all_comes_back(here));
    stream.synchronize();
    resource->trim(0);
  }
  EXPECT_TRUE(comes_to(here, [](const ipc::ChannelStats& stats) { return stats.known <= 1; }));
  here.send(filled(pattern(300, 1)), stream);  // brings the news along
  (void)there.receive(stream, limit);
  EXPECT_LE(there.stats().opened, 2U);
}

TEST_P(Channels, OneCallSendsMany) {
  auto [here, there] = make_channels();
  const Buffer all = filled(pattern(64000, 5));
  std::vector<ipc::Parcel> parcels;
  for (std::size_t i = 0; i < 1000; ++i) parcels.push_back({all.slice(64 * i, 64), payload(i % 257)});
  const Thread sender([&, &from = here] { EXPECT_EQ(from.send(parcels, stream, limit), 1000U); });
  for (std::size_t i = 0; i < 1000; ++i) {
    const ipc::Parcel parcel = there.receive(stream, limit);
    EXPECT_EQ(parcel.payload, payload(i % 257));
    EXPECT_BYTES(read(parcel.buffer, stream), part(pattern(64000, 5), 64 * i, 64));
  }
  EXPECT_TRUE(all_comes_back(here));
}

TEST_P(Channels, WhatWasLentComesBackWhenThePeerEnds) {
  auto [mine, theirs] = Channel::make_sockets();
  Channel here(std::move(mine));
  {
    Channel there(std::move(theirs));
    here.send(filled(pattern(300, 1)), stream);
    here.send(filled(pattern(300, 2)), stream);
    (void)there.receive(stream, limit);
  }
  EXPECT_TRUE(all_comes_back(here));
  EXPECT_ERROR(here.send(filled(pattern(300, 1)), stream), Errc::peer_gone, "ipc::Channel");
  EXPECT_ERROR(here.receive(stream, limit), Errc::peer_gone, "ipc::Channel");
}

TEST_P(Channels, ABufferOutlivesBothChannels) {
  Buffer borrowed;
  {
    auto [here, there] = make_channels();
    here.send(filled(pattern(5000, 1)), stream);
    borrowed = there.receive(stream, limit).buffer;
  }
  resource->trim(0);
  for (int i = 0; i < 4; ++i) resource->allocate(5000, stream).fill(std::uint8_t{0xff}, stream);
  stream.synchronize();
  EXPECT_BYTES(read(borrowed, stream), pattern(5000, 1));
}

TEST_P(Channels, NoTimeIsEnoughForWhatIsThere) {
  auto [here, there] = make_channels();
  const Buffer buffer = filled(pattern(300, 1));
  for (int i = 0; i < 3; ++i) {
    EXPECT_ERROR(there.receive(stream, 0ms), Errc::timed_out, "nothing came in time");
    here.send(buffer, stream, {}, limit);
    EXPECT_BYTES(read(there.receive(stream, 0ms).buffer, stream), pattern(300, 1));
  }
}

TEST_P(Channels, WhatWasSentBeforeTheEndIsReceived) {
  auto [here, there] = make_channels();
  here.send(filled(pattern(5000, 1)), stream);
  here.close();
  EXPECT_BYTES(read(there.receive(stream, limit).buffer, stream), pattern(5000, 1));
  EXPECT_ERROR(there.receive(stream, limit), Errc::peer_gone, "ipc::Channel");
  EXPECT_ERROR(here.send(filled(pattern(1, 1)), stream), Errc::closed, "closed");
}

// One thread waits at the socket for something to come, one for that thread, one for credit, one for room in the
// socket.
TEST_P(Channels, ClosingEndsEveryWait) {
  auto [here, there] = make_channels();
  auto [narrow, quiet] = make_channels({.window = 1});
  auto [wide, silent] = make_channels({.window = 65536});
  const Buffer buffer = filled(pattern(100, 1));
  stream.synchronize();  // so that no file goes with the buffers, of which not as many may be under way
  const auto send = [&](Channel& channel) { channel.send(buffer, stream); };
  const auto receive = [&](Channel& channel) { (void)channel.receive(stream); };
  const auto send_all = [&](Channel& channel) {
    for (int i = 0; i < 65536; ++i) send(channel);
  };
  {
    const Waiting first(there, receive), second(there, receive), for_credit(narrow, send, 1), for_room(wide, send_all);
    there.close();
    narrow.close();
    wide.close();
  }
  EXPECT_ERROR(there.receive(stream), Errc::closed, "closed");
  silent.close();
  EXPECT_TRUE(all_comes_back(wide));
}

TEST_P(Channels, APeerThatTakesNothingKeepsNobodyForLonger) {
  auto [here, there] = make_channels({.window = 4});
  const Buffer buffer = filled(pattern(100, 1));
  there.close();
  auto [other, silent] = make_channels({.window = 4});
  std::vector<ipc::Parcel> four;
  for (int i = 0; i < 4; ++i) four.push_back({buffer.share(), {}});
  EXPECT_EQ(other.send(four, stream), 4U);
  EXPECT_ERROR(other.send(buffer, stream, {}, 5ms), Errc::timed_out, "ipc::Channel");
  EXPECT_EQ(other.stats().lent, 4U);
  (void)silent.receive(stream, limit);
  EXPECT_EQ(silent.stats().waiting, 3U);
  (void)silent.receive(stream, limit);
  other.send(buffer, stream, {}, limit);
  std::vector<ipc::Parcel> three;
  for (int i = 0; i < 3; ++i) three.push_back({buffer.share(), {}});
  EXPECT_EQ(other.send(three, stream, 5ms), 1U) << "there was room for one more";
  EXPECT_ERROR(other.send(three, stream, 5ms), Errc::timed_out, "ipc::Channel");
  EXPECT_ERROR(other.receive(stream, 5ms), Errc::timed_out, "in time");
}

TEST_P(Channels, BothEndsSendAtOnce) {
  auto [here, there] = make_channels({.window = 8});
  const auto talk = [this](Channel& channel, std::uint32_t mine, std::uint32_t theirs) {
    const Stream own(device());
    const Thread sender([&] {
      const Stream of_sender(device());
      for (std::uint32_t i = 0; i < 200; ++i) {
        Buffer buffer = resource->allocate(64, of_sender);
        write(buffer, pattern(64, mine + i), of_sender);
        channel.send(buffer, of_sender, {}, limit);
      }
    });
    for (std::uint32_t i = 0; i < 200; ++i) {
      EXPECT_BYTES(read(channel.receive(own, limit).buffer, own), pattern(64, theirs + i));
    }
  };
  {
    const Thread other([&, &channel = there] { talk(channel, 5000, 1000); });
    talk(here, 1000, 5000);
  }
  EXPECT_TRUE(all_comes_back(here));
  EXPECT_TRUE(all_comes_back(there));
}

TEST_P(Channels, WhoeverPassesABufferOnKeepsIt) {
  auto [first, middle] = make_channels();
  auto [sender, last] = make_channels();
  first.send(filled(pattern(5000, 1)), stream);
  {
    Buffer passed = middle.receive(stream, limit).buffer;
    if (!passed.location().segment->exportable) GTEST_SKIP() << "opened memory of this kind is not exported again";
    sender.send(passed, stream);
  }
  Buffer borrowed = last.receive(stream, limit).buffer;
  EXPECT_EQ(first.stats().lent, 1U);
  EXPECT_EQ(middle.stats().borrowed, 1U);
  EXPECT_BYTES(read(borrowed, stream), pattern(5000, 1));
  borrowed.close();
  EXPECT_TRUE(all_comes_back(sender));
  EXPECT_TRUE(all_comes_back(first));
}

TEST_P(Channels, LeaveNoFilesBehind) {
  const auto round = [&] {
    auto [here, there] = make_channels();
    for (int i = 0; i < 10; ++i) here.send(filled(pattern(300, 1)), stream);
    (void)there.receive(stream, limit);
    (void)there.receive(stream, limit);
  };
  expect_rounds_leave_no_files(round, stream, *resource, limit);
}

class ChannelProcesses : public Channels {};
WEIR_FOR_EACH_EXPORTABLE(ChannelProcesses);

TEST_P(ChannelProcesses, TheChangeIsSeenHere) {
  ChannelChild child("rewrite", device(), 40);
  Channel channel = child.connect();
  std::vector<Buffer> sent;
  for (std::uint32_t i = 0; i < 40; ++i) {
    sent.push_back(filled(pattern(1000 + i, i)));
    const std::byte seed{static_cast<unsigned char>(i)};
    channel.send(sent.back(), stream, std::span(&seed, 1), limit);
  }
  EXPECT_EQ(child.line(), "done");
  for (std::uint32_t i = 0; i < 40; ++i) EXPECT_BYTES(read(sent[i], stream), pattern(1000 + i, i + 1));
  EXPECT_TRUE(all_comes_back(channel));
  EXPECT_EQ(child.wait(), 0);
}

TEST_P(ChannelProcesses, AKilledPeerGivesEverythingBack) {
  ChannelChild child("hold", device(), 20);
  Channel channel = child.connect();
  for (std::uint32_t i = 0; i < 30; ++i) channel.send(filled(pattern(1000, i)), stream, {}, limit);
  EXPECT_EQ(child.line(), "holds");
  EXPECT_EQ(channel.stats().lent, 30U);
  child.kill();
  EXPECT_TRUE(all_comes_back(channel));
  EXPECT_ERROR(channel.send(filled(pattern(1, 1)), stream, {}, limit), Errc::peer_gone, "ipc::Channel");
}

TEST_P(ChannelProcesses, WhatComesFromThereIsRead) {
  ChannelChild child("make", device(), 100);
  Channel channel = child.connect();
  for (std::uint32_t i = 0; i < 100; ++i) {
    const ipc::Parcel parcel = channel.receive(stream, limit);
    EXPECT_BYTES(read(parcel.buffer, stream), pattern(500 + i, i));
  }
  EXPECT_EQ(child.line(), "done");
  EXPECT_EQ(child.wait(), 0);
  EXPECT_ERROR(channel.receive(stream, limit), Errc::peer_gone, "ipc::Channel");
}

TEST(ChannelArguments, AreChecked) {
  EXPECT_ERROR((Channel(spi::UniqueFd{})), Errc::invalid_argument, "ipc::Channel");
  EXPECT_ERROR((Channel(std::move(socket_pair(SOCK_STREAM).first))), Errc::invalid_argument, "ipc::Channel");
  EXPECT_ERROR((Channel(std::move(Channel::make_sockets().first), {.window = 0})), Errc::invalid_argument,
               "ipc::Channel");
  auto [mine, theirs] = Channel::make_sockets();
  EXPECT_ERROR((Channel(mine.duplicate(), {.window = 0})), Errc::invalid_argument, "ipc::Channel");
  char sent = 0;
  EXPECT_EQ(::send(theirs.get(), &sent, 1, MSG_NOSIGNAL), 1) << "a copy of a refused socket stays connected";
  auto [here, there] = make_channels();
  const Stream stream(host_device());
  const Buffer buffer = make_resource(host_device(), MemoryKind::shared, {.exportable = true})->allocate(10, stream);
  EXPECT_ERROR(here.send(buffer, stream, Bytes(257)), Errc::invalid_argument, "ipc::Channel");
  EXPECT_ERROR(here.send(make_resource(host_device())->allocate(10, stream), stream), Errc::unsupported, "exportable");
  EXPECT_ERROR(here.send(Buffer(), stream), Errc::closed, "");
  EXPECT_EQ(here.stats().lent, 0U);
}

}  // namespace
}  // namespace weir::test
