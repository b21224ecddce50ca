// SPDX-License-Identifier: Apache-2.0
#pragma once
// The messages about names and their bytes, which docs/ipc.md specifies. One message is one packet. Nothing in a packet
// is trusted: reading checks its form, and session.hpp and the client check what it says.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "weir/names.hpp"

namespace weir::detail::names {

inline constexpr std::uint32_t protocol_version = 1;
inline constexpr std::size_t largest_question = 1024;    ///< bytes
inline constexpr std::size_t largest_answer = 32 << 10;  ///< bytes
inline constexpr std::size_t longest_name = 255;         ///< bytes
inline constexpr std::size_t longest_pattern = 256;      ///< bytes
inline constexpr std::size_t longest_reason = 512;       ///< bytes
inline constexpr std::size_t most_dimensions = 64;
// Of a whole list. A server has at most half as many names and clients at a time, and they change while it is told.
inline constexpr std::size_t most_listed_names = 131072;
inline constexpr std::size_t most_listed_clients = 8192;
inline constexpr std::size_t most_listed_loans = 1 << 20;

using Packet = std::vector<std::byte>;
using Bytes = std::span<const std::byte>;

// What a client says.

/// The first message, and only that. With a pattern, the connection is for news and nothing else.
struct Hello {
  std::uint32_t version;
  std::string pattern;
};
/// Of the names that match the pattern and come after `after`.
struct ListNames {
  std::uint32_t request;  ///< of the client's choice, and part of the answer
  std::string pattern;
  std::string after;
};
struct GetTensor {
  std::uint32_t request;
  std::string name;
};
/// Of the loans that come after this client's loan of this version. Those of a client come in the order of versions.
struct ListGuests {
  std::uint32_t request;
  std::uint64_t after;
  std::uint64_t after_version;
};
using Question = std::variant<Hello, ListNames, GetTensor, ListGuests>;

// What a server says.

/// The first message. The file of the channel comes beside it, unless the connection is for news.
struct Welcome {
  std::uint32_t version;
};
enum class Reason : std::uint32_t {
  unknown_name = 1,
  busy,
  too_many_loans,
  not_allowed,
  too_many_clients,
  version,
  failed
};
/// The answer to any message that did not do what it asked for. After a refused Hello the server ends the connection.
struct Refused {
  std::uint32_t request;  ///< 0 for a Hello
  Reason reason;
  std::string text;  ///< what is no text, or too much of it, is left out of the packet
};
struct Names {
  std::uint32_t request;
  bool more;  ///< ask again after the last one
  std::vector<ipc::Listing> all;
};
/// The memory has been granted on the channel, with `request` as its payload, unless the tensor has none.
struct GotTensor {
  std::uint32_t request;
  ipc::Listing tensor;
};
/// One entry for each loan, and one for each client that has none.
struct Guests {
  std::uint32_t request;
  bool more;
  std::vector<ipc::Guest> all;
};
using Answer = std::variant<Welcome, Refused, Names, GotTensor, Guests, ipc::News>;

[[nodiscard]] Packet encode(const Question& question);
[[nodiscard]] Packet encode(const Answer& answer);
/// Decode a packet. Throws corrupt_descriptor.
///@{
[[nodiscard]] Question decode_question(Bytes packet);
[[nodiscard]] Answer decode_answer(Bytes packet);
///@}

/// Return how many bytes this takes of an answer.
///@{
[[nodiscard]] std::size_t encoded_size(const ipc::Listing& listing) noexcept;
[[nodiscard]] std::size_t encoded_size(const ipc::Guest& guest) noexcept;
///@}
inline constexpr std::size_t list_overhead = 12;  ///< of an answer with a list, besides its entries

/// Return whether `name` may be the name of a tensor.
[[nodiscard]] bool is_name(std::string_view name) noexcept;
/// Return that with which all names begin that match the pattern.
[[nodiscard]] std::string_view beginning(std::string_view pattern) noexcept;
/// Return whether `name` is `pattern`, or begins with what stands before the `*` at the end of `pattern`.
[[nodiscard]] bool matches(std::string_view name, std::string_view pattern) noexcept;

}  // namespace weir::detail::names
