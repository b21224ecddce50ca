// SPDX-License-Identifier: Apache-2.0
#pragma once
// The messages of a channel and their bytes, which docs/channel-protocol.md specifies. A packet is a row of messages,
// which arrives as a whole or not at all. Nothing in a packet is trusted: the reader checks its form, and the two halves
// of a connection (lender.hpp, borrower.hpp) check what it says.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ipc/timeline_page.hpp"
#include "ipc/wire.hpp"

namespace weir::detail::channel {

inline constexpr std::uint32_t protocol_version = 4;
inline constexpr std::size_t most_payload = 256;        ///< bytes of a user beside one buffer
inline constexpr std::size_t largest_packet = 32 << 10;  ///< bytes
inline constexpr std::size_t most_files = 253;          ///< beside one packet
inline constexpr std::size_t most_unopened_files = 256;  ///< of segments of several parts

/// The first message of each side, and only that.
struct Hello {
  std::uint32_t version;
  std::uint32_t window;  ///< so many buffers may be on their way to this side
};
/// A segment that the receiver may open. Its files come beside the packet.
struct Segment {
  std::uint32_t number;                   ///< of the sender's choice, greater than all before
  std::span<const std::byte> descriptor;  ///< of the whole segment, wire_size bytes or more
  [[nodiscard]] std::size_t files() const noexcept { return files_in(descriptor.size()); }
};
/// The sender's timeline page, which it sends at most once. Its file comes beside the packet.
struct Page {};
/// A buffer that the receiver may use until it releases it.
struct Grant {
  std::uint64_t number;   ///< of the sender's choice, unlike that of any grant that is not released
  std::uint32_t segment;  ///< that the sender has told of
  std::uint64_t offset;   ///< in the segment
  std::uint64_t size;     ///< greater than 0
  PagePoint ready;        ///< on the sender's page, for which the receiver waits; or none
  std::span<const std::byte> payload;
};
/// Grants of the receiver that the sender uses no more.
struct Releases {
  std::span<const std::byte> numbers;
  [[nodiscard]] std::size_t size() const noexcept { return numbers.size() / sizeof(std::uint64_t); }
  [[nodiscard]] std::uint64_t operator[](std::size_t i) const noexcept;
};
/// So many buffers that were on their way to the sender have been taken by its user.
struct Credit {
  std::uint32_t buffers;
};
/// A segment of which the sender grants nothing any more.
struct Retire {
  std::uint32_t segment;
};
/// The sender sends no more buffers, and takes none.
struct Bye {};

using Message = std::variant<Hello, Segment, Page, Grant, Releases, Credit, Retire, Bye>;

/// Builds a packet. Each `add` returns false, and adds nothing, when the message does not fit.
class PacketWriter {
 public:
  /// Packets get no larger than `bytes`, unless they have no more than one buffer and what must precede it.
  explicit PacketWriter(std::size_t bytes = largest_packet) noexcept : most_(std::min(bytes, largest_packet)) {}

  bool add(const Hello& message);
  bool add(const Segment& message);
  bool add(const Page& message);
  bool add(const Grant& message);
  bool add(std::span<const std::uint64_t>& releases);  ///< takes as many from the front as fit
  bool add(const Credit& message);
  bool add(const Retire& message);
  bool add(const Bye& message);

  /// Return whether there is room for a grant with so large a payload, and for the messages that may have to precede
  /// it: a page, and a segment of so many parts. An empty packet has.
  [[nodiscard]] bool has_room(std::size_t payload, std::size_t parts = 1) const noexcept;
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  [[nodiscard]] bool empty() const noexcept { return bytes_.empty(); }
  [[nodiscard]] std::size_t files() const noexcept { return files_; }  ///< that must come beside the packet
  void clear() noexcept;

 private:
  std::span<std::byte> begin(std::uint16_t type, std::size_t body) { return begin(type, body, 0, most_); }
  // For what has_room() has found room.
  std::span<std::byte> begin_of_buffer(std::uint16_t type, std::size_t body, std::size_t files = 0) {
    return begin(type, body, files, largest_packet);
  }
  std::span<std::byte> begin(std::uint16_t type, std::size_t body, std::size_t files, std::size_t most);
  [[nodiscard]] std::size_t room(std::size_t most) const noexcept { return most - std::min(most, bytes_.size()); }

  const std::size_t most_;
  std::vector<std::byte> bytes_;
  std::size_t files_ = 0;
};

/// Takes a packet apart. The spans of a message point into the packet.
class PacketReader {
 public:
  /// `files` came beside the packet.
  PacketReader(std::span<const std::byte> packet, std::size_t files) noexcept : rest_(packet), files_(files) {}
  /// More files came than this process had room for, so nobody knows how many.
  struct FilesLost {};
  PacketReader(std::span<const std::byte> packet, FilesLost /*some*/) noexcept
      : rest_(packet), files_(most_files), counted_(false) {}
  /// Return the next message; nothing behind the last one. Throws corrupt_descriptor for what is no message, and when
  /// the files are more or fewer than the messages need.
  [[nodiscard]] std::optional<Message> next();

 private:
  std::span<const std::byte> rest_;
  std::size_t files_;
  bool counted_ = true;
};

/// Throw corrupt_descriptor: the peer broke the protocol.
[[noreturn]] void violated(const std::string& how);

}  // namespace weir::detail::channel
