// SPDX-License-Identifier: Apache-2.0
#include "copy/host_bytes.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

#include "copy/streaming.hpp"

namespace weir::detail {
namespace {

// The ranges may overlap, because a span of the caller's may be anywhere.
void copy_bytes(std::byte* dst, const std::byte* src, std::size_t bytes) {
  const bool apart = std::less_equal{}(dst + bytes, src) || std::less_equal{}(src + bytes, dst);
  if (!apart || !is_streamed(bytes, bytes)) {
    std::memmove(dst, src, bytes);
    return;
  }
  stream_bytes(dst, src, bytes);
  end_streaming();
}

}  // namespace

void copy_host(std::span<std::byte> dst, spi::Location src) {
  src.segment->before_host_read(src.offset, dst.size());
  copy_bytes(dst.data(), src.segment->host + src.offset, dst.size());
}

void copy_host(spi::Location dst, std::span<const std::byte> src) {
  dst.segment->before_host_write(dst.offset, src.size());
  copy_bytes(dst.segment->host + dst.offset, src.data(), src.size());
  dst.segment->after_host_write(dst.offset, src.size());
}

void copy_host(spi::Location dst, spi::Location src, std::size_t bytes) {
  src.segment->before_host_read(src.offset, bytes);
  copy_host(dst, {src.segment->host + src.offset, bytes});
}

void fill_host(spi::Location dst, std::size_t bytes, std::uint64_t pattern, std::uint32_t pattern_bytes) {
  dst.segment->before_host_write(dst.offset, bytes);
  std::byte* const begin = dst.segment->host + dst.offset;
  if (pattern_bytes == 1) {
    std::memset(begin, static_cast<int>(pattern & 0xff), bytes);
  } else {
    // The memory may be write-combined, where one read costs more than a thousand writes. So it is only written, never
    // read.
    std::array<std::byte, 4096> block;
    const std::size_t size = std::min(bytes, block.size());
    std::memcpy(block.data(), &pattern, pattern_bytes);
    for (std::size_t done = pattern_bytes; done < size; done *= 2) {
      std::memcpy(block.data() + done, block.data(), std::min(done, size - done));
    }
    for (std::size_t done = 0; done < bytes; done += size) {
      std::memcpy(begin + done, block.data(), std::min(size, bytes - done));
    }
  }
  dst.segment->after_host_write(dst.offset, bytes);
}

}  // namespace weir::detail
