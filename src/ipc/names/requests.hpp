// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which answer, and which buffer, belongs to a client's question. Knows neither files nor clocks.

#include <cstddef>
#include <cstdint>
#include <span>

#include "ipc/names/messages.hpp"

namespace weir::detail::names {

/// Numbers the questions of a client. One at a time waits for its answer. Those that the client gave up are answered
/// too, in order. Not thread-safe.
class Requests {
 public:
  /// The next question has the number after `last`.
  explicit Requests(std::uint32_t last = 0) noexcept : last_(last) {}

  /// Return the number of the next question; never 0, which is that of a greeting.
  [[nodiscard]] std::uint32_t next() noexcept {
    if (++last_ == 0) ++last_;
    return last_;
  }
  /// Return whether this answers the last question. False for an answer to one that was given up. Throws
  /// corrupt_descriptor when nobody asked.
  [[nodiscard]] bool is_answered_by(const Answer& answer) const;
  /// Return whether the buffer with this payload is that of the last question. Throws corrupt_descriptor.
  [[nodiscard]] bool brings(std::span<const std::byte> payload) const;

 private:
  std::uint32_t last_;
};

}  // namespace weir::detail::names
