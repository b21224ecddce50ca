// SPDX-License-Identifier: Apache-2.0
#pragma once
// Little-endian fields of the formats that go to other processes. The callers check that the fields lie in the bytes.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "weir/device.hpp"

namespace weir::detail {

template <class T>
void put(std::span<std::byte> bytes, std::size_t at, T value) noexcept {
  for (std::size_t i = 0; i < sizeof(T); ++i)
    bytes[at + i] = static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xff);
}

template <class T>
[[nodiscard]] T get(std::span<const std::byte> bytes, std::size_t at) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value |= std::to_integer<std::uint64_t>(bytes[at + i]) << (8 * i);
  return static_cast<T>(value);
}

inline void put_uuid(std::span<std::byte> bytes, std::size_t at, const Uuid& uuid) noexcept {
  std::memcpy(bytes.data() + at, uuid.bytes.data(), uuid.bytes.size());
}

[[nodiscard]] inline Uuid get_uuid(std::span<const std::byte> bytes, std::size_t at) noexcept {
  Uuid uuid;
  std::memcpy(uuid.bytes.data(), bytes.data() + at, uuid.bytes.size());
  return uuid;
}

}  // namespace weir::detail
