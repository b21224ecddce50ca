// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a copy or a fill must be before it is put on a stream. Each function throws if its argument is not. `operation`
// is the public function's name, "Buffer::fill", for the message.

#include <cstddef>

#include "copy/region.hpp"
#include "copy/transfer.hpp"
#include "weir/buffer.hpp"
#include "weir/spi/block.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/segment.hpp"

namespace weir::detail {

/// Return how many of `bytes` bytes from either place on are the same memory.
[[nodiscard]] std::size_t shared_bytes(const Place& a, const Place& b, std::size_t bytes);

/// A buffer that takes part in an operation, looked up once.
struct Operand {
  spi::Block* block;
  std::size_t begin;  ///< of the buffer, from byte 0 of the segment
  std::size_t size;   ///< bytes

  [[nodiscard]] Place at(std::size_t offset) const noexcept { return {block, begin + offset}; }
};

[[noreturn]] void refuse_closed(const char* operation);
/// Throws closed, and unsupported in a forked child that may not use the memory's device.
[[nodiscard]] inline Operand open_operand(const char* operation, const Buffer& buffer) {
  spi::Block* const block = buffer.block();
  if (!block) [[unlikely]]
    refuse_closed(operation);
  if (block->segment) block->segment->device->check_process();
  return {block, block->offset + buffer.offset(), buffer.size()};
}

// The others throw invalid_argument, or permission_denied for memory that is read-only. `role` is for the message:
// "source", "destination" or "buffer".

void check_range(const char* operation, const char* role, const Operand& operand, std::size_t offset,
                 std::size_t bytes);
void check_same_size(const char* operation, const Operand& dst, const Operand& src);
void check_writable(const char* operation, const Operand& dst);
void check_apart(const char* operation, const Place& a, const Place& b, std::size_t bytes);
/// The same for the rows of a region of tensors.
void check_apart(const char* operation, spi::Segment& dst, spi::Segment& src, const PlacedRegion& placed);
/// A pattern has 1, 2, 4 or 8 bytes.
void check_pattern(std::size_t pattern_bytes);
void check_multiple(std::size_t bytes, std::size_t pattern_bytes);

}  // namespace weir::detail
