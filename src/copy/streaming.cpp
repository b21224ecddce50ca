// SPDX-License-Identifier: Apache-2.0
#include "copy/streaming.hpp"

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace weir::detail {

#if defined(__SSE2__)

namespace {

constexpr std::size_t least = std::size_t{32} << 20;  // as much as the last cache of many processors
constexpr std::size_t least_row = 512;                // below, the ends of rows take most of the time
constexpr std::size_t line = 64;
constexpr std::size_t ahead = 5 * line;  // Processors that read ahead by themselves begin anew on each page and row.

}  // namespace

bool is_streamed(std::size_t bytes, std::size_t row_bytes) noexcept { return bytes >= least && row_bytes >= least_row; }

void stream_bytes(std::byte* dst, const std::byte* src, std::size_t bytes) noexcept {
  const std::size_t head = (line - reinterpret_cast<std::uintptr_t>(dst) % line) % line;
  if (bytes < head + line) {
    std::memcpy(dst, src, bytes);
    return;
  }
  std::memcpy(dst, src, head);
  std::size_t done = head;
  for (; bytes - done >= line; done += line) {
    const auto* const from = reinterpret_cast<const __m128i*>(src + done);
    auto* const to = reinterpret_cast<__m128i*>(dst + done);
    _mm_prefetch(reinterpret_cast<const char*>(from) + ahead, _MM_HINT_T0);
    const __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
    const __m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
  }
  std::memcpy(dst + done, src + done, bytes - done);
}

void end_streaming() noexcept { _mm_sfence(); }

#else

bool is_streamed(std::size_t, std::size_t) noexcept { return false; }
void stream_bytes(std::byte* dst, const std::byte* src, std::size_t bytes) noexcept { std::memcpy(dst, src, bytes); }
void end_streaming() noexcept {}

#endif

}  // namespace weir::detail
