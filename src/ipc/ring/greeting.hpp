// SPDX-License-Identifier: Apache-2.0
#pragma once
// The bytes of a ring beside the buffers of a channel (docs/channel-protocol.md). The first buffer that a producer
// lends brings a greeting as its payload, and names memory of no meaning. Every further one is a frame, whose payload
// begins with its sequence number. Nothing of these bytes is trusted.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "weir/layout.hpp"

namespace weir::detail::ring {

inline constexpr std::size_t most_dimensions = 8;
inline constexpr std::size_t sequence_bytes = 8;  ///< before a frame's payload

/// What a consumer learns before the first frame.
struct Greeting {
  std::uint64_t first = 0;         ///< the sequence number with which it begins
  std::optional<Layout> layout{};  ///< of each frame
};

[[nodiscard]] std::vector<std::byte> encode(const Greeting& greeting);
/// Throws corrupt_descriptor, naming the field, and incompatible for another version.
[[nodiscard]] Greeting decode_greeting(std::span<const std::byte> bytes);

/// Return the bytes beside a frame, whose number number_frame() sets.
[[nodiscard]] std::vector<std::byte> encode_frame(std::span<const std::byte> payload);
void number_frame(std::span<std::byte> bytes, std::uint64_t sequence) noexcept;
/// Return the sequence number, and leave the user's payload in `bytes`. Throws corrupt_descriptor if there is none.
[[nodiscard]] std::uint64_t take_sequence(std::vector<std::byte>& bytes);

/// Throw corrupt_descriptor: the producer broke the protocol.
[[noreturn]] void corrupt(const char* how);

}  // namespace weir::detail::ring
