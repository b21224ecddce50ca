// SPDX-License-Identifier: Apache-2.0
#include "descriptor_fields.hpp"

#include <algorithm>

namespace weir::test::wire {
namespace {

void put(Bytes& descriptor, const Field& field, std::uint64_t value) {
  for (std::size_t i = 0; i < field.bytes; ++i, value >>= 8U) descriptor[field.offset + i] = std::byte(value & 0xffU);
}

// FNV-1a of everything before it.
void seal(Bytes& descriptor) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (std::size_t i = 0; i < checksum.offset; ++i) {
    hash ^= std::to_integer<std::uint64_t>(descriptor[i]);
    hash *= 0x100000001b3U;
  }
  put(descriptor, checksum, hash);
}

}  // namespace

std::uint64_t get(std::span<const std::byte> descriptor, const Field& field) {
  std::uint64_t value = 0;
  for (std::size_t i = std::min<std::size_t>(field.bytes, 8); i-- > 0;) {
    value = value << 8U | std::to_integer<std::uint64_t>(descriptor[field.offset + i]);
  }
  return value;
}

Bytes with(std::span<const std::byte> descriptor, const Field& field, std::uint64_t value) {
  Bytes forged(descriptor.begin(), descriptor.end());
  put(forged, field, value);
  seal(forged);
  return forged;
}

Bytes flipped(std::span<const std::byte> descriptor, std::size_t at, std::byte change) {
  Bytes forged(descriptor.begin(), descriptor.end());
  forged[at] ^= change;
  if (at < checksum.offset) seal(forged);
  return forged;
}

}  // namespace weir::test::wire
