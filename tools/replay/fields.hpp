// SPDX-License-Identifier: Apache-2.0
#pragma once
// One line of a trace, cut into fields.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace weir::replay {

/// The fields of a line, and the line's number. All views are into the text.
class Fields {
 public:
  /// Cut `text` at `separator`. There are at most `most` names. Throws TraceError unless there are as many fields as
  /// names.
  Fields(std::string_view text, char separator, std::span<const std::string_view> names, std::uint64_t line);

  [[nodiscard]] std::string_view text(std::size_t field) const noexcept { return fields_[field]; }
  /// Return a field as a number: decimal, or hexadecimal after 0x. Throws TraceError.
  [[nodiscard]] std::uint64_t number(std::size_t field) const;
  [[nodiscard]] std::uint64_t line() const noexcept { return line_; }
  /// Throw a TraceError that quotes the field and says what it should be.
  [[noreturn]] void refuse(std::size_t field, std::string_view wanted) const;

  static constexpr std::size_t most = 10;

 private:
  std::array<std::string_view, most> fields_;
  std::span<const std::string_view> names_;
  std::uint64_t line_;
};

/// Return at most 60 characters of `text` between quotation marks, with ? for control characters.
[[nodiscard]] std::string quoted(std::string_view text);

}  // namespace weir::replay
