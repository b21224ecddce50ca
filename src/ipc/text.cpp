// SPDX-License-Identifier: Apache-2.0
#include "ipc/text.hpp"

#include <cstdint>

namespace weir::detail {
namespace {

// Return how many bytes the character has with which these begin; 0 for a control character, and for what is none.
std::size_t character(std::string_view bytes) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  if (first < 0xc2 || first > 0xf4) return 0;
  const std::size_t size = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (size > bytes.size()) return 0;
  std::uint32_t code = first & (0x7fU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3fU);
  }
  // Of two bytes: behind the control characters. Of more: what has no shorter form.
  constexpr std::uint32_t least[] = {0xa0, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  return code >= least[size - 2] && code <= 0x10ffff && !surrogate ? size : 0;
}

}  // namespace

bool is_text(std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const std::size_t size = character(bytes);
    if (size == 0) return false;
    bytes.remove_prefix(size);
  }
  return true;
}

std::string to_text(std::string_view bytes, std::size_t most) {
  std::string text;
  while (!bytes.empty()) {
    const std::size_t size = character(bytes);
    const std::string_view next = size == 0 ? " " : bytes.substr(0, size);
    if (next.size() > most - text.size()) break;
    text += next;
    bytes.remove_prefix(next.size());
  }
  return text;
}

}  // namespace weir::detail
