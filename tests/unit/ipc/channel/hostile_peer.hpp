// SPDX-License-Identifier: Apache-2.0
#pragma once
// A channel whose peer writes what it likes on the socket.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "bytes.hpp"
#include "expect.hpp"
#include "ipc/channel/messages.hpp"
#include "ipc/packets.hpp"
#include "ipc/wire.hpp"
#include "weir/channel.hpp"
#include "weir/ipc.hpp"
#include "weir/memory_resource.hpp"
#include "weir/stream.hpp"

namespace weir::test {

/// Return a memfd of so many bytes with these seals.
inline spi::UniqueFd memory_file(std::size_t bytes, int seals = F_SEAL_SHRINK | F_SEAL_GROW) {
  spi::UniqueFd file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(::fcntl(file.get(), F_ADD_SEALS, seals), 0);
  return file;
}

/// Return one like it whose memory is reserved, as that of an honest peer is.
inline spi::UniqueFd reserved_memory_file(std::size_t bytes) {
  auto file = memory_file(bytes);
  EXPECT_EQ(::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)), 0);
  return file;
}

/// Return a descriptor of the buffer's whole segment, as its process tells a peer of it.
inline detail::WireDescriptor whole_segment(const Buffer& buffer, const Stream& stream) {
  auto wire = detail::decode(buffer.ipc_descriptor(stream).bytes());
  wire.has_lease = wire.has_ready = false;
  wire.offset = 0;
  wire.size = wire.segment_size;
  return wire;
}

inline constexpr std::chrono::seconds time_limit{30};

/// A peer that has a socket, and bytes of its own making.
class Peer {
 public:
  explicit Peer(spi::UniqueFd socket) : socket_(std::move(socket)) {}
  void say(const detail::channel::PacketWriter& packet, std::span<const int> files = {}) { say(packet.bytes(), files); }
  void say(std::span<const std::byte> bytes, std::span<const int> files = {}) {
    EXPECT_EQ(detail::send_packet(socket_.get(), bytes, files, true), static_cast<std::ptrdiff_t>(bytes.size()));
  }
  void greet(std::uint32_t window = 16) {
    detail::channel::PacketWriter packet;
    EXPECT_TRUE(packet.add(detail::channel::Hello{detail::channel::protocol_version, window}));
    say(packet);
  }
  /// Return the next grant that the channel sends. Its payload is gone.
  [[nodiscard]] detail::channel::Grant next_grant() {
    std::optional<detail::channel::Grant> grant;
    while (!grant) {
      read([&](const detail::channel::Message& message) {
        const auto* const sent = std::get_if<detail::channel::Grant>(&message);
        if (!sent) return true;
        grant = *sent;
        grant->payload = {};
        return false;
      });
    }
    return *grant;
  }
  /// Wait until the channel gives something back. Return how much it has given back so far; 0 after the time limit.
  [[nodiscard]] std::size_t await_releases() {
    const auto deadline = std::chrono::steady_clock::now() + time_limit;
    while (releases_ == 0 && std::chrono::steady_clock::now() < deadline) {
      read([](const detail::channel::Message&) { return true; });
    }
    return releases_;
  }
  /// Return whether the channel's side ends the connection within the time limit.
  [[nodiscard]] bool await_end() {
    pollfd entry{socket_.get(), POLLRDHUP, 0};
    return ::poll(&entry, 1, static_cast<int>(std::chrono::milliseconds(time_limit).count())) == 1;
  }
  [[nodiscard]] std::size_t files() const { return files_; }  ///< that came so far
  [[nodiscard]] const spi::UniqueFd& page() const { return page_; }  ///< the channel's, if it has told of one
  [[nodiscard]] std::size_t releases() const { return releases_; }  ///< that came so far
  void leave() { socket_.reset(); }
  /// Let so many bytes be sent that nobody has read. Return false if this process may not.
  [[nodiscard]] bool send_ahead(int bytes) {
    return ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) == 0;
  }
  /// Return whether the channel has read everything that was sent.
  [[nodiscard]] bool is_read() const {
    int unread = -1;
    EXPECT_EQ(::ioctl(socket_.get(), SIOCOUTQ, &unread), 0);
    return unread == 0;
  }

 private:
  /// Read the next packet, if there is one, until `goes_on(message)` returns false.
  template <class GoesOn>
  void read(GoesOn goes_on) {
    std::vector<spi::StrangerFd> files;
    files.reserve(detail::most_sent_files);
    std::vector<std::byte> bytes(detail::channel::largest_packet);
    const auto arrival = detail::receive_packet(socket_.get(), bytes, files);
    if (arrival.bytes <= 0) return std::this_thread::yield();
    files_ += files.size();
    const std::span<const std::byte> all(bytes.data(), static_cast<std::size_t>(arrival.bytes));
    detail::channel::PacketReader packet(all, files.size());
    std::size_t next_file = 0;
    while (const auto message = packet.next()) {
      if (const auto* const segment = std::get_if<detail::channel::Segment>(&*message)) next_file += segment->files();
      if (std::holds_alternative<detail::channel::Page>(*message)) page_ = files.at(next_file++).trust();
      if (const auto* const back = std::get_if<detail::channel::Releases>(&*message)) releases_ += back->size();
      if (!goes_on(*message)) return;
    }
  }

  spi::UniqueFd socket_, page_;
  std::size_t files_ = 0, releases_ = 0;
};

class HostilePeer : public testing::Test {
 protected:
  HostilePeer() : HostilePeer(ipc::Channel::make_sockets()) {}

  Buffer shared(std::size_t bytes = 100) { return resource_->allocate(bytes, stream_); }
  void expect_nothing_lent() {
    const auto deadline = std::chrono::steady_clock::now() + time_limit;
    while (channel_.stats().lent != 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(channel_.stats().lent, 0U);
  }
  void expect_cut_off(std::string_view why) {
    EXPECT_ERROR(channel_.receive(stream_, time_limit), Errc::corrupt_descriptor, why);
    EXPECT_ERROR(channel_.receive(stream_, time_limit), Errc::corrupt_descriptor, why);
    EXPECT_ERROR(channel_.send(shared(), stream_, {}, time_limit), Errc::corrupt_descriptor, why);
    expect_nothing_lent();
  }
  /// Return a descriptor as this process would make it for a segment of its own.
  detail::WireDescriptor honest() { return whole_segment(shared(), stream_); }

  /// Return one like it of a segment of so many parts.
  detail::WireDescriptor of_many_parts(std::size_t parts) {
    auto wire = honest();
    wire.parts.assign(parts, wire.segment_size);
    wire.size = wire.segment_size *= parts;
    return wire;
  }

  /// Say what `more` adds behind a segment as it should be, which has number 1, with the files of that beside it.
  template <class More>
  void say_behind_a_segment(More more, std::vector<int> files = {}) {
    const auto wire = honest();
    const auto file = reserved_memory_file(wire.segment_size);
    detail::channel::PacketWriter packet;
    ASSERT_TRUE(packet.add(detail::channel::Segment{1, detail::encode(wire)}));
    more(packet);
    files.insert(files.begin(), file.get());
    peer_.say(packet, files);
  }

  const Stream stream_{host_device()};
  const ResourcePtr resource_ = make_resource(host_device(), MemoryKind::shared, {.exportable = true});
  Peer peer_;
  ipc::Channel channel_;

 private:
  explicit HostilePeer(std::pair<spi::UniqueFd, spi::UniqueFd> sockets)
      : peer_(std::move(sockets.first)), channel_(std::move(sockets.second)) {}
};

}  // namespace weir::test
