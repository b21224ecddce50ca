// SPDX-License-Identifier: Apache-2.0
// A channel whose peer writes what it likes on the socket. Whatever that is: the peer is cut off, what it had borrowed
// comes back, and no file is left.

#include "hostile_peer.hpp"

#include <fcntl.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "busy_pipe.hpp"
#include "fds.hpp"
#include "ipc/channel/link.hpp"
#include "ipc/channel/links.hpp"

namespace weir::test {
namespace {

using namespace detail::channel;
using ipc::Channel;

constexpr auto limit = time_limit;

// The library's thread has read all of it before the first call that takes something.
TEST_F(HostilePeer, ThatIsGoneLeavesWhatItSentBefore) {
  peer_.greet();
  channel_.send(shared(), stream_, {}, time_limit);  // so the thread reads
  say_behind_a_segment([](PacketWriter& packet) {
    for (const std::uint64_t number : {1, 2}) EXPECT_TRUE(packet.add(Grant{number, 1, 0, 8, {}, {}}));
  });
  peer_.leave();
  expect_nothing_lent();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(channel_.receive(stream_, time_limit).buffer.size(), 8U);
  EXPECT_ERROR(channel_.receive(stream_, time_limit), Errc::peer_gone, "the other process is gone");
}

TEST_F(HostilePeer, ThatReadsNothingKeepsNoClosedConnection) {
  constexpr std::uint32_t window = 4096;
  auto [mine, theirs] = Channel::make_sockets();
  const auto link = make_link(std::move(mine), window);
  Peer far(std::move(theirs));
  far.greet();
  const auto wire = honest();
  const auto file = reserved_memory_file(wire.segment_size);
  PacketWriter segment;
  ASSERT_TRUE(segment.add(Segment{1, detail::encode(wire)}));
  far.say(segment, std::array{file.get()});
  for (std::uint64_t number = 1; number < window; ++number) {  // more answers than the socket takes
    PacketWriter packet;
    ASSERT_TRUE(packet.add(Grant{number, 1, 0, 8, {}, {}}));
    far.say(packet);
    (void)link->receive(stream_, Deadline(limit));
  }
  link->close();
  EXPECT_TRUE(far.await_end());
}

// Whoever opens a file with a lease waits for its holder, for up to 45 seconds.
TEST_F(HostilePeer, ThatHoldsALeaseOnItsMemoryHoldsUpNobody) {
  peer_.greet();
  const auto wire = honest();
  const auto file = reserved_memory_file(wire.segment_size), again = reopened(file.get(), O_RDWR);
  PacketWriter packet;
  ASSERT_TRUE(packet.add(Segment{1, detail::encode(wire)}));
  ASSERT_TRUE(packet.add(Grant{1, 1, 0, 8, {}, {}}));
  peer_.say(packet, std::array{file.get()});
  const Buffer buffer = channel_.receive(stream_, time_limit).buffer;
  ASSERT_EQ(::fcntl(again.get(), F_SETSIG, SIGURG), 0);  // which is ignored
  if (::fcntl(again.get(), F_SETLEASE, F_WRLCK) != 0) GTEST_SKIP() << "the kernel gives no lease on a memfd";
  EXPECT_THROW((void)buffer.ipc_descriptor(stream_, ipc::Access::read_only), std::system_error);
  ASSERT_EQ(::fcntl(again.get(), F_SETLEASE, F_UNLCK), 0);
  EXPECT_NO_THROW((void)buffer.ipc_descriptor(stream_, ipc::Access::read_only));
}

TEST_F(HostilePeer, SaysNothingThatIsNoMessage) {
  peer_.greet();
  channel_.send(shared(), stream_, {}, limit);
  peer_.say(pattern(333, 1));
  expect_cut_off("broke the protocol");
}

TEST_F(HostilePeer, GreetsFirstAndOnce) {
  PacketWriter packet;
  ASSERT_TRUE(packet.add(Credit{1}));
  peer_.say(packet);
  expect_cut_off("no greeting");
}

TEST_F(HostilePeer, GreetsOnce) {
  peer_.greet();
  peer_.greet();
  expect_cut_off("second greeting");
}

TEST_F(HostilePeer, SpeaksThisVersion) {
  PacketWriter packet;
  ASSERT_TRUE(packet.add(Hello{1, 16}));
  peer_.say(packet);
  EXPECT_ERROR(channel_.receive(stream_, limit), Errc::incompatible, "version 1");
}

TEST_F(HostilePeer, HasAWindow) {
  peer_.greet(0);
  expect_cut_off("a window of 0");
}

TEST_F(HostilePeer, ReleasesOnlyWhatItHas) {
  peer_.greet();
  channel_.send(shared(), stream_, {}, limit);
  const std::uint64_t number = peer_.next_grant().number;
  PacketWriter packet;
  const std::array<std::uint64_t, 2> twice{number, number};
  std::span<const std::uint64_t> rest = twice;
  ASSERT_TRUE(packet.add(rest));
  peer_.say(packet);
  expect_cut_off("does not have");
}

TEST_F(HostilePeer, TakesNoMoreThanWasSent) {
  peer_.greet();
  channel_.send(shared(), stream_, {}, limit);
  PacketWriter packet;
  ASSERT_TRUE(packet.add(Credit{2}));
  peer_.say(packet);
  expect_cut_off("it took 2 buffers of 1");
}

TEST_F(HostilePeer, GrantsOnlyWhatItToldOf) {
  peer_.greet();
  PacketWriter packet;
  ASSERT_TRUE(packet.add(Grant{1, 1, 0, 1, {}, {}}));
  peer_.say(packet);
  expect_cut_off("never told");
}

TEST_F(HostilePeer, LeavesFewFilesOpenThatNobodyAskedFor) {
  peer_.greet();
  const auto wire = of_many_parts(200);
  const auto file = memory_file(wire.parts[0]);
  const std::vector<int> files(wire.parts.size(), file.get());
  for (std::uint32_t number = 1; number <= 2; ++number) {
    PacketWriter packet;
    ASSERT_TRUE(packet.add(Segment{number, detail::encode(wire)}));
    peer_.say(packet, files);
  }
  EXPECT_ERROR(channel_.receive(stream_, limit), Errc::corrupt_descriptor, "more than 256 files");
}

// A buffer that nobody has taken keeps the files of its segment, also if the segment is said to be gone.
TEST_F(HostilePeer, RetiresNothingThatNobodyHasTaken) {
  const auto before = open_fds();
  peer_.greet();
  const auto wire = of_many_parts(200);
  const auto file = memory_file(wire.parts[0]);
  const std::vector<int> files(wire.parts.size(), file.get());
  for (std::uint32_t number = 1; number <= 2; ++number) {
    PacketWriter packet;
    ASSERT_TRUE(packet.add(Segment{number, detail::encode(wire)}));
    ASSERT_TRUE(packet.add(Grant{number, number, 0, 8, {}, {}}));
    ASSERT_TRUE(packet.add(Retire{number}));
    peer_.say(packet, files);
  }
  expect_cut_off("segment 1 ends while buffers of it are lent");
  EXPECT_LT(open_fds(), before + wire.parts.size()) << describe_fds();
}

// What is held keeps the connection, although nobody will receive anything more.
TEST_F(HostilePeer, LeavesNoFilesOpenAtAClosedChannel) {
  peer_.greet();
  say_behind_a_segment([](PacketWriter& packet) { ASSERT_TRUE(packet.add(Grant{1, 1, 0, 8, {}, {}})); });
  const Buffer held = channel_.receive(stream_, limit).buffer;
  channel_.close();
  const auto before = open_fds();
  const auto wire = of_many_parts(200);
  const auto file = memory_file(wire.parts[0]);
  PacketWriter packet;
  ASSERT_TRUE(packet.add(Segment{2, detail::encode(wire)}));
  ASSERT_TRUE(packet.add(Grant{2, 2, 0, 8, {}, {}}));
  peer_.say(packet, std::vector<int>(wire.parts.size(), file.get()));
  EXPECT_EQ(peer_.await_releases(), 1U);
  EXPECT_LT(open_fds(), before + wire.parts.size()) << describe_fds();
}

TEST_F(HostilePeer, GrantsNothingAfterItsFarewell) {
  peer_.greet();
  say_behind_a_segment([](PacketWriter& packet) {
    ASSERT_TRUE(packet.add(Bye{}));
    ASSERT_TRUE(packet.add(Grant{1, 1, 0, 1, {}, {}}));
  });
  expect_cut_off("after its farewell");
}

TEST_F(HostilePeer, WaitsForNoPointThatNeverCame) {
  peer_.greet();
  say_behind_a_segment([](PacketWriter& packet) { ASSERT_TRUE(packet.add(Grant{1, 1, 0, 1, {0, 1}, {}})); });
  expect_cut_off("never told");
}

// The segment is what it should be in form. What is behind it shows when the memory is opened, and costs the buffer
// alone.
TEST_F(HostilePeer, NamesNoFileThatIsNoMemory) {
  peer_.greet();
  const auto wire = honest();
  const spi::UniqueFd other(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  const auto small = memory_file(wire.segment_size / 2);
  const auto right = reserved_memory_file(wire.segment_size);
  PacketWriter packet;
  const auto bytes = detail::encode(wire);
  for (std::uint32_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(packet.add(Segment{i, bytes}));
    ASSERT_TRUE(packet.add(Grant{i, i, 0, 8, {}, {}}));
    ASSERT_TRUE(packet.add(Grant{i + 10, i, 8, 8, {}, {}}));
  }
  const std::array<int, 3> files{other.get(), small.get(), right.get()};
  peer_.say(packet, files);
  for (int i = 0; i < 4; ++i) EXPECT_ERROR(channel_.receive(stream_, limit), Errc::corrupt_descriptor, "");
  EXPECT_BYTES(read(channel_.receive(stream_, limit).buffer, stream_), repeat(8, 0));
  EXPECT_BYTES(read(channel_.receive(stream_, limit).buffer, stream_), repeat(8, 0));
}

TEST_F(HostilePeer, HoldsUpNobodyByItsSilence) {
  EXPECT_ERROR(channel_.send(shared(), stream_, {}, std::chrono::milliseconds{5}), Errc::timed_out, "ipc::Channel");
  EXPECT_ERROR(channel_.receive(stream_, std::chrono::milliseconds{5}), Errc::timed_out, "ipc::Channel");
  peer_.greet(2);
  channel_.send(shared(), stream_, {}, limit);
  channel_.send(shared(), stream_, {}, limit);
  EXPECT_ERROR(channel_.send(shared(), stream_, {}, std::chrono::milliseconds{5}), Errc::timed_out, "ipc::Channel");
  EXPECT_EQ(channel_.stats().lent, 2U);
  peer_.leave();
  expect_nothing_lent();
}

// Only what a socket holds by itself is read after the time limit.
TEST_F(HostilePeer, ThatSendsAheadKeepsNobodyBeyondTheTimeLimit) {
  if (!peer_.send_ahead(16 << 20)) GTEST_SKIP() << "this process may not enlarge the buffer of a socket";
  peer_.greet();
  const auto wire = honest();
  const auto file = reserved_memory_file(wire.segment_size);
  std::uint32_t number = 1;
  for (int i = 0; i < 24; ++i, ++number) {
    PacketWriter packet;
    std::vector<int> files;
    for (; 2 * packet.bytes().size() <= largest_packet; ++number) {
      ASSERT_TRUE(packet.add(Segment{number, detail::encode(wire)}));
      ASSERT_TRUE(packet.add(Retire{number}));
      files.push_back(file.get());
    }
    peer_.say(packet, files);
  }
  PacketWriter packet;
  ASSERT_TRUE(packet.add(Segment{number, detail::encode(wire)}));
  ASSERT_TRUE(packet.add(Grant{0, number, 0, 8, {}, {}}));
  peer_.say(packet, std::array<int, 1>{file.get()});
  EXPECT_ERROR(channel_.receive(stream_, std::chrono::milliseconds{0}), Errc::timed_out, "nothing came in time");
  EXPECT_FALSE(peer_.is_read());
  EXPECT_EQ(channel_.receive(stream_, limit).buffer.size(), 8U);
}

TEST_F(HostilePeer, LeavesNoFilesBehind) {
  const auto wire = honest();
  const std::size_t before = open_fds();
  {
    auto [one, other] = Channel::make_sockets();
    Peer peer(std::move(one));
    Channel channel(std::move(other));
    peer.greet();
    const auto file = reserved_memory_file(wire.segment_size);
    std::vector<int> files(10, file.get());
    PacketWriter packet;
    for (std::uint32_t i = 1; i <= 10; ++i) ASSERT_TRUE(packet.add(Segment{i, detail::encode(wire)}));
    peer.say(packet, files);
    peer.say(pattern(100, 1), files);
    EXPECT_ERROR(channel.receive(stream_, limit), Errc::corrupt_descriptor, "");
  }
  const auto deadline = std::chrono::steady_clock::now() + limit;  // a stranger's files are closed a moment later
  while (open_fds() > before + 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_LE(open_fds(), before + 2) << "the thread of the channels has two files, and lingers";
}

}  // namespace
}  // namespace weir::test
