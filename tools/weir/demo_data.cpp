// SPDX-License-Identifier: Apache-2.0
#include "demo_data.hpp"

#include <cstdint>

namespace weir::cli {

std::vector<std::byte> pattern(unsigned seed, std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  std::uint32_t state = seed * 2654435761u + 1;
  for (std::byte& byte : out) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::byte>(state >> 24);
  }
  return out;
}

bool holds(const Buffer& buffer, const std::vector<std::byte>& expected, const Stream& stream) {
  if (buffer.size() != expected.size()) return false;
  std::vector<std::byte> found(expected.size());
  buffer.copy_to(found, stream);
  stream.synchronize();
  return found == expected;
}

}  // namespace weir::cli
