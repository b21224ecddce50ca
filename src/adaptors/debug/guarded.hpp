// SPDX-License-Identifier: Apache-2.0
#pragma once
// One allocation of a debug resource: the guards around the buffer, the poison in it, and damage to either.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "weir/spi/block.hpp"
#include "weir/stream.hpp"

namespace weir::detail {

inline constexpr std::byte guard_byte{0xfd};   ///< before and after a buffer
inline constexpr std::byte fresh_byte{0xcd};   ///< in a new buffer
inline constexpr std::byte closed_byte{0xdd};  ///< in the whole allocation, once the buffer is closed and kept

/// An allocation from upstream. From byte 0 it holds padding for the alignment, a guard, the buffer and another guard.
struct Guarded {
  spi::Block* block = nullptr;
  std::uint64_t number = 0;  ///< counts the resource's allocations, from 1
  std::uint64_t stream = 0;  ///< id of the allocation stream
  std::size_t guard = 0;     ///< bytes of each guard
  std::size_t front = 0;     ///< offset of the buffer
  std::size_t bytes = 0;     ///< of the buffer
  Guarded* next = nullptr;   ///< in the list of those that are kept

  [[nodiscard]] std::size_t total() const noexcept { return front + bytes + guard; }
  [[nodiscard]] std::size_t before() const noexcept {
    return front - guard;
  }  ///< where the first guard begins
  [[nodiscard]] std::size_t after() const noexcept { return front + bytes; }  ///< where the second guard begins
  [[nodiscard]] bool on_host() const noexcept { return block->segment->host_accessible(); }

  /// Make the block describe the buffer alone.
  void enter() const noexcept;
  /// Make the block describe all of upstream's allocation again.
  void leave() const noexcept;

  /// Write the guards and, with `poison`, fill the buffer. The host does this at once if it reaches the memory and
  /// nothing is pending on `stream`; otherwise it is work on `stream`. The block must describe upstream's allocation.
  void prepare(bool poison, const Stream& stream) const;
};

/// Bytes that are not what they should be.
struct Damage {
  std::size_t count = 0;
  std::size_t first = 0;  ///< index of the first such byte
};
Damage damage(std::span<const std::byte> bytes, std::byte expected) noexcept;

/// Return text such as "buffer 3 of 1000 bytes (stream 7): 4 bytes after its end were overwritten, the first at offset
/// 1003". `begin` is where in the allocation the bytes begin that were checked for `found`.
std::string describe(const Guarded& guarded, const Damage& found, std::size_t begin, const char* what);

}  // namespace weir::detail
