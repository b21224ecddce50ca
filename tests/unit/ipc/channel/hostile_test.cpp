// SPDX-License-Identifier: Apache-2.0
// A channel whose peer writes what it likes on the socket. Whatever that is: the peer is cut off, what it had borrowed
// comes back, and no file is left.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "bytes.hpp"
#include "expect.hpp"
#include "fds.hpp"
#include "ipc/channel/messages.hpp"
#include "ipc/packets.hpp"
#include "ipc/wire.hpp"
#include "weir/channel.hpp"
#include "weir/ipc.hpp"
#include "weir/memory_resource.hpp"
#include "weir/stream.hpp"

namespace weir::test {
namespace {

using namespace detail::channel;
using ipc::Channel;

constexpr std::chrono::seconds limit{30};

spi::UniqueFd memory_file(std::size_t bytes) {
  spi::UniqueFd file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  return file;
}

/// A peer that has a socket, and bytes of its own making.
class Peer {
 public:
  explicit Peer(spi::UniqueFd socket) : socket_(std::move(socket)) {}
  void say(const PacketWriter& packet, std::span<const int> files = {}) { say(packet.bytes(), files); }
  void say(std::span<const std::byte> bytes, std::span<const int> files = {}) {
    EXPECT_EQ(detail::send_packet(socket_.get(), bytes, files, true), static_cast<std::ptrdiff_t>(bytes.size()));
  }
  void greet(std::uint32_t window = 16) {
    PacketWriter packet;
    EXPECT_TRUE(packet.add(Hello{protocol_version, window}));
    say(packet);
  }
  /// Return the number of the next grant that the channel sends.
  [[nodiscard]] std::uint64_t next_grant() {
    for (;;) {
      std::vector<spi::StrangerFd> files;
      files.reserve(detail::most_sent_files);
      std::vector<std::byte> bytes(largest_packet);
      const auto arrival = detail::receive_packet(socket_.get(), bytes, files);
      if (arrival.bytes <= 0) {
        std::this_thread::yield();
        continue;
      }
      const std::span<const std::byte> all(bytes.data(), static_cast<std::size_t>(arrival.bytes));
      PacketReader packet(all, files.size());
      while (const auto message = packet.next()) {
        if (const auto* const grant = std::get_if<Grant>(&*message)) return grant->number;
      }
    }
  }
  void leave() { socket_.reset(); }

 private:
  spi::UniqueFd socket_;
};

class HostilePeer : public testing::Test {
 protected:
  HostilePeer() : HostilePeer(Channel::make_sockets()) {}

  Buffer shared(std::size_t bytes = 100) { return resource_->allocate(bytes, stream_); }
  void expect_nothing_lent() {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (channel_.stats().lent != 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(channel_.stats().lent, 0U);
  }
  void expect_cut_off(std::string_view why) {
    EXPECT_ERROR(channel_.receive(stream_, limit), Errc::corrupt_descriptor, why);
    EXPECT_ERROR(channel_.receive(stream_, limit), Errc::corrupt_descriptor, why);
    EXPECT_ERROR(channel_.send(shared(), stream_, {}, limit), Errc::corrupt_descriptor, why);
    expect_nothing_lent();
  }
  /// Return a descriptor as this process would make it for a segment of its own.
  detail::WireDescriptor honest() {
    const Buffer buffer = shared();
    const auto real = buffer.ipc_descriptor(stream_);
    auto wire = detail::decode(real.bytes());
    wire.has_lease = wire.has_ready = false;
    wire.offset = 0;
    wire.size = wire.segment_size;
    return wire;
  }

  /// Say what `more` adds behind a segment as it should be, which has number 1.
  template <class More>
  void say_behind_a_segment(More more) {
    const auto wire = honest();
    const auto file = memory_file(wire.segment_size);
    PacketWriter packet;
    ASSERT_TRUE(packet.add(Segment{1, detail::encode(wire)}));
    more(packet);
    const int number = file.get();
    peer_.say(packet, {&number, 1});
  }

  const Stream stream_{host_device()};
  const ResourcePtr resource_ = make_resource(host_device(), MemoryKind::shared, {.exportable = true});
  Peer peer_;
  Channel channel_;

 private:
  explicit HostilePeer(std::pair<spi::UniqueFd, spi::UniqueFd> sockets)
      : peer_(std::move(sockets.first)), channel_(std::move(sockets.second)) {}
};

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
  ASSERT_TRUE(packet.add(Hello{2, 16}));
  peer_.say(packet);
  EXPECT_ERROR(channel_.receive(stream_, limit), Errc::incompatible, "version 2");
}

TEST_F(HostilePeer, HasAWindow) {
  peer_.greet(0);
  expect_cut_off("a window of 0");
}

TEST_F(HostilePeer, ReleasesOnlyWhatItHas) {
  peer_.greet();
  channel_.send(shared(), stream_, {}, limit);
  const std::uint64_t number = peer_.next_grant();
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
  ASSERT_TRUE(packet.add(Grant{1, 1, false, 0, 1, {}}));
  peer_.say(packet);
  expect_cut_off("never told");
}

TEST_F(HostilePeer, GrantsNothingAfterItsFarewell) {
  peer_.greet();
  say_behind_a_segment([](PacketWriter& packet) {
    ASSERT_TRUE(packet.add(Bye{}));
    ASSERT_TRUE(packet.add(Grant{1, 1, false, 0, 1, {}}));
  });
  expect_cut_off("after its farewell");
}

TEST_F(HostilePeer, WaitsForNoPointThatNeverCame) {
  peer_.greet();
  say_behind_a_segment([](PacketWriter& packet) { ASSERT_TRUE(packet.add(Grant{1, 1, true, 0, 1, {}})); });
  expect_cut_off("waits for nothing");
}

// The segment is what it should be in form. What is behind it shows when the memory is opened, and costs the buffer
// alone.
TEST_F(HostilePeer, NamesNoFileThatIsNoMemory) {
  peer_.greet();
  const auto wire = honest();
  const spi::UniqueFd other(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  const auto small = memory_file(wire.segment_size / 2);
  const auto right = memory_file(wire.segment_size);
  PacketWriter packet;
  const auto bytes = detail::encode(wire);
  for (std::uint32_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(packet.add(Segment{i, bytes}));
    ASSERT_TRUE(packet.add(Grant{i, i, false, 0, 8, {}}));
    ASSERT_TRUE(packet.add(Grant{i + 10, i, false, 8, 8, {}}));
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

TEST_F(HostilePeer, LeavesNoFilesBehind) {
  const auto wire = honest();
  const std::size_t before = open_fds();
  {
    auto [one, other] = Channel::make_sockets();
    Peer peer(std::move(one));
    Channel channel(std::move(other));
    peer.greet();
    const auto file = memory_file(wire.segment_size);
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
