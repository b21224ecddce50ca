// SPDX-License-Identifier: Apache-2.0
#pragma once
// Patterned bytes, and buffers written and read through the public API only.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weir/buffer.hpp"

namespace weir::test {

using Bytes = std::vector<std::byte>;

/// `count` bytes that depend on `seed` and on their position; no short period.
Bytes pattern(std::size_t count, std::uint32_t seed);
/// `count` times the same byte.
Bytes repeat(std::size_t count, unsigned char value);
/// `count` of them, beginning at `offset`.
Bytes part(std::span<const std::byte> bytes, std::size_t offset, std::size_t count);

/// Enqueue `bytes` into all of `buffer`, which has that size.
void write(Buffer& buffer, std::span<const std::byte> bytes, const Stream& stream);
/// All bytes of `buffer` as they are after everything on `stream`. Waits.
Bytes read(const Buffer& buffer, const Stream& stream);

/// What goes around accesses through `host_data()`: before bytes are read, after they were written. Changes nothing but for
/// mapped memory that is not coherent.
void before_host_read(const Buffer& buffer);
void after_host_write(const Buffer& buffer);

/// Whether both are equal; else says where and how they differ first.
testing::AssertionResult same_bytes(std::span<const std::byte> actual, std::span<const std::byte> expected);

}  // namespace weir::test

#define EXPECT_BYTES(actual, expected) EXPECT_TRUE(::weir::test::same_bytes(actual, expected))
#define ASSERT_BYTES(actual, expected) ASSERT_TRUE(::weir::test::same_bytes(actual, expected))
