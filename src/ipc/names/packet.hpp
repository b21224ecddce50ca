// SPDX-License-Identifier: Apache-2.0
#pragma once
// Fields of a packet, one behind the other. Read under the assumption that a stranger wrote it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ipc/bytes.hpp"

namespace weir::detail::names {

/// Throw corrupt_descriptor: the other process broke the protocol.
[[noreturn]] void violated(const std::string& how);

/// Appends fields to a packet.
class FieldWriter {
 public:
  explicit FieldWriter(std::vector<std::byte>& packet) noexcept : packet_(packet) {}
  template <class T>
  void number(T value) {
    packet_.resize(packet_.size() + sizeof value);
    put(packet_, packet_.size() - sizeof value, value);
  }
  void text(std::string_view text);

 private:
  std::vector<std::byte>& packet_;
};

/// Takes fields from a packet. Throws corrupt_descriptor where it ends too early.
class FieldReader {
 public:
  explicit FieldReader(std::span<const std::byte> packet) noexcept : rest_(packet) {}
  template <class T>
  [[nodiscard]] T number(const char* what) {
    return get<T>(take(sizeof(T), what), 0);
  }
  [[nodiscard]] std::string text(std::size_t most, const char* what);
  /// Throw if something is left.
  void end() const;

 private:
  [[nodiscard]] std::span<const std::byte> take(std::size_t bytes, const char* what);

  std::span<const std::byte> rest_;
};

}  // namespace weir::detail::names
