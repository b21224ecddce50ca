// SPDX-License-Identifier: Apache-2.0
// Records copies and fills. Copies have no alignment rule in Vulkan. But vkCmdFillBuffer knows only whole 32-bit words,
// so the ends of unaligned fills and patterns of eight bytes are copied from scratch memory.
#include <algorithm>
#include <array>
#include <cstring>

#include "logical.hpp"
#include "stream.hpp"

namespace weir::vulkan {
namespace {

constexpr std::size_t seed_bytes = 4096;  // of an eight-byte pattern; larger fills double it on the device

// A pattern, and the same pattern as it appears `by` bytes further on.
struct Pattern {
  std::array<std::byte, 8> bytes{};
  std::size_t period;

  Pattern(std::uint64_t value, std::size_t size) : period(size) {
    std::memcpy(bytes.data(), &value, size);  // little-endian, as on every host with a Vulkan driver
    if (size == 8 && std::memcmp(bytes.data(), bytes.data() + 4, 4) == 0) period = 4;
  }
  [[nodiscard]] std::uint64_t rotated(std::size_t by) const {
    std::array<std::byte, 8> turned{};
    for (std::size_t i = 0; i < period; ++i) turned[i] = bytes[(i + by) % period];
    std::uint64_t value = 0;
    std::memcpy(&value, turned.data(), sizeof value);
    return value;
  }
  [[nodiscard]] std::uint32_t word(std::size_t by) const {
    std::array<std::byte, 4> turned;
    for (std::size_t i = 0; i < turned.size(); ++i) turned[i] = bytes[(i + by) % period];
    std::uint32_t value = 0;
    std::memcpy(&value, turned.data(), sizeof value);
    return value;
  }
};

}  // namespace

void BatchedStream::do_copy(const spi::CopyOp& op, std::uint64_t value) {
  const DriverCall call(Doing::copy);
  if (!call) return;
  open();
  copy(memory_of(op.dst), op.dst.offset, memory_of(op.src), op.src.offset, op.bytes);
  recorded(value, op.bytes);
}

void BatchedStream::copy(Memory& dst, std::size_t dst_offset, Memory& src, std::size_t src_offset, std::size_t bytes) {
  order({{&src, src_offset, src_offset + bytes, false}, {&dst, dst_offset, dst_offset + bytes, true}});
  const VkBufferCopy region{src_offset, dst_offset, bytes};
  doing_ |= static_cast<unsigned>(Doing::submit_copy);
  logical_.fn.vkCmdCopyBuffer(open_->commands, src.buffer, dst.buffer, 1, &region);
}

void BatchedStream::do_fill(const spi::FillOp& op, std::uint64_t value) {
  const DriverCall call(Doing::fill);
  if (!call) return;
  Memory& dst = memory_of(op.dst);
  const Pattern pattern(op.pattern, op.pattern_bytes);
  const std::size_t begin = op.dst.offset;
  if (pattern.period == 8) {
    fill_from_scratch(dst, begin, op.bytes, op.pattern, 8);
  } else {
    const std::size_t head = std::min((4 - begin % 4) % 4, op.bytes);
    const std::size_t words = (op.bytes - head) & ~std::size_t{3};
    const std::size_t tail = op.bytes - head - words;
    if (head) fill_from_scratch(dst, begin, head, pattern.rotated(0), pattern.period);
    if (tail) fill_from_scratch(dst, begin + head + words, tail, pattern.rotated(head + words), pattern.period);
    if (words) fill_words(dst, begin + head, words, pattern.word(head));
  }
  recorded(value, op.bytes);
}

void BatchedStream::fill_words(Memory& dst, std::size_t offset, std::size_t bytes, std::uint32_t word) {
  open();
  order({{&dst, offset, offset + bytes, true}});
  doing_ |= static_cast<unsigned>(Doing::submit_fill);
  logical_.fn.vkCmdFillBuffer(open_->commands, dst.buffer, offset, bytes, word);
}

void BatchedStream::fill_from_scratch(Memory& dst, std::size_t offset, std::size_t bytes, std::uint64_t pattern,
                                      std::size_t pattern_bytes) {
  const std::size_t seed = std::min(bytes, seed_bytes);
  std::size_t place = 0;
  open();
  if (!open_->take_scratch(seed, place)) {
    submit();
    open();
    (void)open_->take_scratch(seed, place);
  }
  Memory& scratch = *open_->scratch;
  for (std::size_t i = 0; i < seed; ++i)
    scratch.host[place + i] = static_cast<std::byte>(pattern >> i % pattern_bytes * 8);
  scratch.after_host_write(place, seed);
  copy(dst, offset, scratch, place, seed);
  for (std::size_t done = seed; done < bytes; done += std::min(done, bytes - done))
    copy(dst, offset + done, dst, offset, std::min(done, bytes - done));
}

}  // namespace weir::vulkan
