// SPDX-License-Identifier: Apache-2.0
#pragma once
// One allocation of a debug resource: guards around the buffer, poison in it, and what is wrong with them.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "weir/spi/block.hpp"
#include "weir/stream.hpp"

namespace weir::detail {

inline constexpr std::byte guard_byte{0xfd};   ///< before and after a buffer
inline constexpr std::byte fresh_byte{0xcd};   ///< in a new one
inline constexpr std::byte closed_byte{0xdd};  ///< everywhere, once it is closed and kept

/// Upstream's allocation, from byte 0: what alignment costs, a guard, the buffer, a guard.
struct Guarded {
  spi::Block* block = nullptr;
  std::uint64_t number = 0;  ///< of the resource's allocations, from 1
  std::uint64_t stream = 0;  ///< of its allocation
  std::size_t guard = 0;     ///< bytes of each
  std::size_t front = 0;     ///< where the buffer begins
  std::size_t bytes = 0;     ///< of the buffer
  Guarded* next = nullptr;   ///< of those that are kept

  [[nodiscard]] std::size_t total() const noexcept { return front + bytes + guard; }
  [[nodiscard]] std::size_t before() const noexcept {
    return front - guard;
  }  ///< where the first guard begins
  [[nodiscard]] std::size_t after() const noexcept { return front + bytes; }  ///< where the second does
  [[nodiscard]] bool on_host() const noexcept { return block->segment->host_accessible(); }

  /// Let the block be the buffer / all of upstream's allocation again.
  void enter() const noexcept;
  void leave() const noexcept;

  /// Write guards, and with `poison` also the buffer: by the host at once where nothing is pending on
  /// `stream`, else as work of it. The block is upstream's.
  void prepare(bool poison, const Stream& stream) const;
};

/// Bytes that are not what they should be.
struct Damage {
  std::size_t count = 0;
  std::size_t first = 0;  ///< index
};
Damage damage(std::span<const std::byte> bytes, std::byte expected) noexcept;

/// "buffer 3 of 1000 bytes (stream 7): 4 bytes after its end were overwritten, the first at offset 1003".
/// `begin` is where `found` was looked for.
std::string describe(const Guarded& guarded, const Damage& found, std::size_t begin, const char* what);

}  // namespace weir::detail
