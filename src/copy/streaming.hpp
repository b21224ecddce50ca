// SPDX-License-Identifier: Apache-2.0
#pragma once
// Copies of host memory that go around the caches: large ones would be out of the caches before anybody reads them, and
// a store into a cache first reads what it overwrites.

#include <cstddef>

namespace weir::detail {

/// Return whether a copy of so many bytes, in rows of `row_bytes`, is faster around the caches. False on processors for
/// which there is no such copy.
[[nodiscard]] bool is_streamed(std::size_t bytes, std::size_t row_bytes) noexcept;

/// Copy bytes between ranges that do not overlap. The last copy is followed by end_streaming().
void stream_bytes(std::byte* dst, const std::byte* src, std::size_t bytes) noexcept;

/// Let all bytes be there before any later store of this thread is.
void end_streaming() noexcept;

}  // namespace weir::detail
