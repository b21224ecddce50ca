// SPDX-License-Identifier: Apache-2.0
#include "adaptors/debug/guarded.hpp"

#include "copy/host_bytes.hpp"
#include "copy/transfer.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::detail {

void Guarded::enter() const noexcept {
  block->offset += front;
  block->size = bytes;
}

void Guarded::leave() const noexcept {
  block->offset -= front;
  block->size = total();
}

void Guarded::prepare(bool poison, const Stream& on) const {
  auto& state = on.state();
  const bool by_host = on_host() && state.reached(state.position());
  const auto write = [&](std::size_t begin, std::size_t size, std::byte value) {
    const auto pattern = std::to_integer<std::uint64_t>(value);
    if (by_host) {
      fill_host({block->segment, block->offset + begin}, size, pattern, 1);
    } else {
      fill({block, block->offset + begin}, size, pattern, 1, on);
    }
  };
  write(before(), guard, guard_byte);
  if (poison) write(front, bytes, fresh_byte);
  write(after(), guard, guard_byte);
}

Damage damage(std::span<const std::byte> bytes, std::byte expected) noexcept {
  Damage found;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == expected) continue;
    if (found.count++ == 0) found.first = i;
  }
  return found;
}

std::string describe(const Guarded& guarded, const Damage& found, std::size_t begin, const char* what) {
  const auto at =
      static_cast<std::ptrdiff_t>(begin + found.first) - static_cast<std::ptrdiff_t>(guarded.front);
  return "buffer " + std::to_string(guarded.number) + " of " + std::to_string(guarded.bytes) +
         " bytes (stream " + std::to_string(guarded.stream) + "): " + std::to_string(found.count) +
         " bytes " + what + ", the first at offset " + std::to_string(at);
}

}  // namespace weir::detail
