// SPDX-License-Identifier: Apache-2.0
#pragma once
// Fuzz bytes read as numbers. What is not there reads as zero, so every input means something.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace weir::fuzz {

class Input {
 public:
  explicit Input(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}

  /// The next number, little-endian.
  template <class T>
    requires std::is_integral_v<T>
  T take() noexcept {
    T value{};
    const auto part = bytes(sizeof value);
    if (!part.empty()) std::memcpy(&value, part.data(), part.size());
    return value;
  }
  /// One byte as a number below `count` (at most 256).
  std::size_t below(std::size_t count) noexcept { return take<std::uint8_t>() % count; }
  /// A number of 8 bytes, or a small one, as one byte says: both ends of the range are as likely as its middle.
  std::int64_t number() noexcept {
    switch (const auto form = take<std::uint8_t>(); form) {
      case 0xff: return take<std::int64_t>();
      case 0xfe: return take<std::int32_t>();
      case 0xfd: return INT64_MAX - take<std::uint8_t>();
      case 0xfc: return INT64_MIN + take<std::uint8_t>();
      case 0xfb: return std::int64_t{1} << (take<std::uint8_t>() % 63);
      default: return form < 0xc0 ? form : static_cast<std::int8_t>(form);
    }
  }
  /// The next bytes, fewer at the end.
  std::span<const std::byte> bytes(std::size_t count) noexcept {
    const auto part = bytes_.first(std::min(count, bytes_.size()));
    bytes_ = bytes_.subspan(part.size());
    return part;
  }
  std::span<const std::byte> rest() noexcept { return bytes(bytes_.size()); }
  [[nodiscard]] bool empty() const noexcept { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace weir::fuzz
