// SPDX-License-Identifier: Apache-2.0
// Copies and fills of a Buffer. Every argument is checked first; transfer.hpp does the work.

#include <cstdint>

#include "copy/checks.hpp"
#include "copy/transfer.hpp"
#include "weir/buffer.hpp"

namespace weir {
namespace {

using detail::Operand;

void copy_range(const char* operation, const Operand& dst, std::size_t dst_offset, const Operand& src,
                std::size_t src_offset, std::size_t bytes, const Stream& stream) {
  (void)stream.state();
  detail::check_range(operation, "source", src, src_offset, bytes);
  detail::check_range(operation, "destination", dst, dst_offset, bytes);
  detail::check_writable(operation, dst);
  if (bytes == 0) return;
  const auto to = dst.at(dst_offset), from = src.at(src_offset);
  detail::check_apart(operation, to, from, bytes);
  detail::transfer(to, from, bytes, stream);
}

void copy_range(const char* operation, const Buffer& dst, std::size_t dst_offset, const Buffer& src,
                std::size_t src_offset, std::size_t bytes, const Stream& stream) {
  const auto to = detail::open_operand(operation, dst);
  copy_range(operation, to, dst_offset, detail::open_operand(operation, src), src_offset, bytes, stream);
}

void copy_whole(const char* operation, const Buffer& dst, const Buffer& src, const Stream& stream) {
  const auto to = detail::open_operand(operation, dst);
  const auto from = detail::open_operand(operation, src);
  detail::check_same_size(operation, to, from);
  copy_range(operation, to, 0, from, 0, from.size, stream);
}

}  // namespace

void Buffer::copy_to(Buffer& dst, const Stream& stream) const { copy_whole("Buffer::copy_to", dst, *this, stream); }

Buffer Buffer::copy_to(const Stream& stream) const {
  (void)open("copy_to");
  Buffer copy = memory_resource()->allocate(size(), stream);
  copy_whole("Buffer::copy_to", copy, *this, stream);
  return copy;
}

void Buffer::copy_from(const Buffer& src, const Stream& stream) { copy_whole("Buffer::copy_from", *this, src, stream); }

void Buffer::copy_to(Buffer& dst, std::size_t dst_offset, std::size_t src_offset, std::size_t bytes,
                     const Stream& stream) const {
  copy_range("Buffer::copy_to", dst, dst_offset, *this, src_offset, bytes, stream);
}

void Buffer::copy_from(const Buffer& src, std::size_t src_offset, std::size_t dst_offset, std::size_t bytes,
                       const Stream& stream) {
  copy_range("Buffer::copy_from", *this, dst_offset, src, src_offset, bytes, stream);
}

void Buffer::copy_from(std::span<const std::byte> src, const Stream& stream, std::size_t offset) {
  const auto dst = detail::open_operand("Buffer::copy_from", *this);
  (void)stream.state();
  detail::check_range("Buffer::copy_from", "destination", dst, offset, src.size());
  detail::check_writable("Buffer::copy_from", dst);
  if (!src.empty()) detail::transfer_in(dst.at(offset), src, stream);
}

void Buffer::copy_to(std::span<std::byte> dst, const Stream& stream, std::size_t offset) const {
  const auto src = detail::open_operand("Buffer::copy_to", *this);
  (void)stream.state();
  detail::check_range("Buffer::copy_to", "source", src, offset, dst.size());
  if (!dst.empty()) detail::transfer_out(dst, src.at(offset), stream);
}

void Buffer::fill_pattern(std::uint64_t pattern, std::size_t pattern_bytes, std::size_t offset, std::size_t bytes,
                          const Stream& stream) {
  const auto dst = detail::open_operand("Buffer::fill", *this);
  (void)stream.state();
  detail::check_pattern(pattern_bytes);
  detail::check_range("Buffer::fill", "buffer", dst, offset, bytes);
  detail::check_multiple(bytes, pattern_bytes);
  detail::check_writable("Buffer::fill", dst);
  if (bytes == 0) return;
  if (pattern_bytes < 8) pattern &= (std::uint64_t{1} << (8 * pattern_bytes)) - 1;
  detail::fill(dst.at(offset), bytes, pattern, static_cast<std::uint32_t>(pattern_bytes), stream);
}

}  // namespace weir
