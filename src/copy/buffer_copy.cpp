// SPDX-License-Identifier: Apache-2.0
// Copies and fills of a Buffer. Every argument is checked here; transfer.hpp does the work.

#include <cstdint>
#include <optional>

#include "copy/transfer.hpp"
#include "weir/buffer.hpp"

namespace weir {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw Error(Errc::invalid_argument, message); }

std::string bytes_of(std::size_t bytes) { return std::to_string(bytes) + " bytes"; }

spi::Location open_at(const char* operation, const Buffer& buffer) {
  if (buffer.is_closed()) throw Error(Errc::closed, std::string("Buffer::") + operation + ": the buffer is closed");
  return buffer.location();
}

void check_range(const char* operation, const char* which, const Buffer& buffer, std::size_t offset,
                 std::size_t bytes) {
  if (offset <= buffer.size() && bytes <= buffer.size() - offset) return;
  refuse(std::string("Buffer::") + operation + ": " + bytes_of(bytes) + " at offset " + std::to_string(offset) +
         " do not lie in the " + which + " of " + bytes_of(buffer.size()));
}

void check_writable(const char* operation, const Buffer& buffer) {
  if (buffer.is_read_only()) {
    throw Error(Errc::permission_denied, std::string("Buffer::") + operation + ": the destination is read-only");
  }
}

// Return how far apart two places are in the same memory, or nothing when they are known to be in different memory.
// Wrapped memory is recognized by its address or by the driver's name for it, memory from a descriptor by its segment's
// identity.
std::optional<std::uint64_t> distance(spi::Location a, spi::Location b) {
  const auto between = [](std::uint64_t x, std::uint64_t y) { return x > y ? x - y : y - x; };
  if (a.segment == b.segment) return between(a.offset, b.offset);
  if (!a.segment->imported && !b.segment->imported) return std::nullopt;
  const auto first = a.segment->names(), second = b.segment->names();
  if ((a.segment->device == b.segment->device && first.memory == second.memory) || a.segment->known_as(*b.segment)) {
    return between(first.offset + a.offset, second.offset + b.offset);
  }
  if (a.segment->host && b.segment->host) {
    const auto address = [](spi::Location l) { return reinterpret_cast<std::uintptr_t>(l.segment->host) + l.offset; };
    return between(address(a), address(b));
  }
  if (a.segment->device != b.segment->device || a.segment->address == 0 || b.segment->address == 0) return std::nullopt;
  return between(a.segment->address + a.offset, b.segment->address + b.offset);
}

void check_overlap(const char* operation, spi::Location a, spi::Location b, std::size_t bytes) {
  const auto apart = distance(a, b);
  if (apart && *apart < bytes) {
    refuse(std::string("Buffer::") + operation + ": source and destination overlap by " + bytes_of(bytes - *apart) +
           "; copy through a third buffer");
  }
}

detail::Place place(const Buffer& buffer, std::size_t offset) {
  return {buffer.block(), buffer.location().offset + offset};
}

void copy_range(const char* operation, Buffer& dst, std::size_t dst_offset, const Buffer& src, std::size_t src_offset,
                std::size_t bytes, const Stream& stream) {
  const auto to = open_at(operation, dst);
  const auto from = open_at(operation, src);
  (void)stream.state();
  check_range(operation, "source", src, src_offset, bytes);
  check_range(operation, "destination", dst, dst_offset, bytes);
  check_writable(operation, dst);
  if (bytes == 0) return;
  check_overlap(operation, {to.segment, to.offset + dst_offset}, {from.segment, from.offset + src_offset}, bytes);
  detail::transfer(place(dst, dst_offset), place(src, src_offset), bytes, stream);
}

void check_same_size(const char* operation, const Buffer& dst, const Buffer& src) {
  (void)open_at(operation, dst);
  (void)open_at(operation, src);
  if (dst.size() == src.size()) return;
  refuse(std::string("Buffer::") + operation + ": the source has " + bytes_of(src.size()) + ", the destination " +
         bytes_of(dst.size()) + "; they must be equal, or use the form with offsets and a size");
}

}  // namespace

void Buffer::copy_to(Buffer& dst, const Stream& stream) const {
  check_same_size("copy_to", dst, *this);
  copy_range("copy_to", dst, 0, *this, 0, size(), stream);
}

Buffer Buffer::copy_to(const Stream& stream) const {
  (void)open("copy_to");
  Buffer copy = memory_resource()->allocate(size(), stream);
  copy_range("copy_to", copy, 0, *this, 0, size(), stream);
  return copy;
}

void Buffer::copy_from(const Buffer& src, const Stream& stream) {
  check_same_size("copy_from", *this, src);
  copy_range("copy_from", *this, 0, src, 0, size(), stream);
}

void Buffer::copy_to(Buffer& dst, std::size_t dst_offset, std::size_t src_offset, std::size_t bytes,
                     const Stream& stream) const {
  copy_range("copy_to", dst, dst_offset, *this, src_offset, bytes, stream);
}

void Buffer::copy_from(const Buffer& src, std::size_t src_offset, std::size_t dst_offset, std::size_t bytes,
                       const Stream& stream) {
  copy_range("copy_from", *this, dst_offset, src, src_offset, bytes, stream);
}

void Buffer::copy_from(std::span<const std::byte> src, const Stream& stream, std::size_t offset) {
  (void)open("copy_from");
  (void)stream.state();
  check_range("copy_from", "destination", *this, offset, src.size());
  check_writable("copy_from", *this);
  if (!src.empty()) detail::transfer_in(place(*this, offset), src, stream);
}

void Buffer::copy_to(std::span<std::byte> dst, const Stream& stream, std::size_t offset) const {
  (void)open("copy_to");
  (void)stream.state();
  check_range("copy_to", "source", *this, offset, dst.size());
  if (!dst.empty()) detail::transfer_out(dst, place(*this, offset), stream);
}

void Buffer::fill_pattern(std::uint64_t pattern, std::size_t pattern_bytes, std::size_t offset, std::size_t bytes,
                          const Stream& stream) {
  (void)open("fill");
  (void)stream.state();
  if (pattern_bytes != 1 && pattern_bytes != 2 && pattern_bytes != 4 && pattern_bytes != 8) {
    refuse("Buffer::fill: a pattern of " + bytes_of(pattern_bytes) + "; it must have 1, 2, 4 or 8");
  }
  check_range("fill", "buffer", *this, offset, bytes);
  if (bytes % pattern_bytes != 0) {
    refuse("Buffer::fill: " + bytes_of(bytes) + " are not a multiple of the pattern's " + bytes_of(pattern_bytes));
  }
  check_writable("fill", *this);
  if (bytes == 0) return;
  if (pattern_bytes < 8) pattern &= (std::uint64_t{1} << (8 * pattern_bytes)) - 1;
  detail::fill(place(*this, offset), bytes, pattern, static_cast<std::uint32_t>(pattern_bytes), stream);
}

}  // namespace weir
