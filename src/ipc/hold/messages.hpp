// SPDX-License-Identifier: Apache-2.0
#pragma once
// The messages between a holder and its clients, and their bytes, which docs/ipc.md specifies. A packet of the socket is
// one message, which arrives as a whole or not at all. Nothing in a packet is trusted: decode() checks its form, and the
// state machines (session.hpp, reading.hpp) check what it says.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ipc/wire.hpp"

namespace weir::detail::hold {

inline constexpr std::uint32_t protocol_version = 1;
inline constexpr std::size_t largest_packet = 32 << 10;  ///< bytes
inline constexpr std::size_t most_files = 64;            ///< beside one packet
inline constexpr std::size_t most_name = 255;            ///< bytes
inline constexpr std::size_t most_segments = 65536;      ///< of one set

enum class Role : std::uint32_t { writer = 1, reader = 2 };

/// Why a holder refuses.
enum class Why : std::uint32_t {
  version = 1,      ///< it speaks the version that `limit` says
  connections = 2,  ///< this and the next four: there may be `limit` of them
  sets = 3,
  tensors = 4,
  bytes = 5,
  files = 6,
  forgotten = 7,      ///< the writer named a segment of its last commit that nobody keeps any more
  no_more_files = 8,  ///< the holder's process may open no more; it has `limit` of memory
};

/// The first message of a client, and only that.
struct Hello {
  std::uint32_t version;
  Role role;
  std::string_view set;  ///< which the connection is about, 1 to most_name bytes
};
/// The holder's answer to it.
struct Welcome {
  std::uint32_t version;
};
/// The holder's answer to a Hello, after which it hangs up, or to a Commit.
struct Refused {
  Why why;
  std::uint64_t limit;
};
/// The next segments of a set. The files of those that are new come beside the packet, in their order.
struct Segments {
  static constexpr std::uint32_t fresh = 0xffffffff;
  std::span<const std::byte> entries;      ///< 4 bytes each: `fresh`, or the place in the set before on this connection
  std::span<const std::byte> descriptors;  ///< of those that are new, wire_size bytes each
  [[nodiscard]] std::size_t size() const noexcept { return entries.size() / 4; }
  [[nodiscard]] std::uint32_t operator[](std::size_t i) const noexcept;
  [[nodiscard]] std::size_t files() const noexcept { return descriptors.size() / wire_size; }
};
/// The next tensors of a set; records.hpp takes them apart.
struct Tensors {
  std::uint32_t count;
  std::span<const std::byte> records;
};
/// The set is complete. The file of a lease comes beside the packet if `lease` is set.
struct Commit {
  std::uint32_t tensors, segments;
  bool lease;
};
/// The holder's answer to a Commit, and with epoch 0 to a Remove.
struct Committed {
  std::uint64_t epoch;
};
struct Remove {};
/// A reader asks for the set, once there is one newer than that. It replaces the question before.
struct Open {
  std::uint32_t request;  ///< of the reader's choice
  std::uint64_t newer_than;
};
/// The holder's answer to an Open. Then Segments and Tensors follow, as many as this says.
struct Set {
  std::uint32_t request;
  std::uint64_t epoch;
  std::uint32_t segments, tensors;
  bool lease;  ///< its file comes beside the packet
};

using Message =
    std::variant<Hello, Welcome, Refused, Segments, Tensors, Commit, Committed, Remove, Open, Set>;
using Packet = std::vector<std::byte>;
using Bytes = std::span<const std::byte>;

[[nodiscard]] Packet encode(const Hello& message);
[[nodiscard]] Packet encode(const Welcome& message);
[[nodiscard]] Packet encode(const Refused& message);
[[nodiscard]] Packet encode(const Commit& message);
[[nodiscard]] Packet encode(const Committed& message);
[[nodiscard]] Packet encode(const Remove& message);
[[nodiscard]] Packet encode(const Open& message);
[[nodiscard]] Packet encode(const Set& message);
/// The descriptors are of the fresh ones among `entries`.
[[nodiscard]] Packet encode_segments(std::span<const std::uint32_t> entries, std::span<const Bytes> descriptors);
/// Return whether a packet of Segments has room for another entry beside these.
[[nodiscard]] bool has_room(std::size_t entries, std::size_t fresh) noexcept;

/// Return the message of a packet. Its spans point into the packet. Throws corrupt_descriptor for what is no message.
[[nodiscard]] Message decode(Bytes packet);
/// Return how many files come beside a message.
[[nodiscard]] std::size_t files_of(const Message& message) noexcept;

/// Throw corrupt_descriptor: the other end broke the protocol.
[[noreturn]] void violated(const std::string& how);

}  // namespace weir::detail::hold
