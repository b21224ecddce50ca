// SPDX-License-Identifier: Apache-2.0
#pragma once
// The descriptor format a second time, written from its specification and not from src/: for forging descriptors.

#include <cstddef>
#include <cstdint>
#include <span>

#include "bytes.hpp"

namespace weir::test::wire {

/// A field: where it begins and how many bytes it has.
struct Field {
  const char* name;
  std::size_t offset, bytes;
};

inline constexpr Field magic{"magic", 0, 8};
inline constexpr Field version{"version", 8, 2};
inline constexpr Field size{"size field", 10, 2};
inline constexpr Field handle{"handle kind", 12, 2};
inline constexpr Field kind{"memory kind", 14, 2};
inline constexpr Field fd_count{"file descriptor count", 16, 4};
inline constexpr Field flags{"flags", 20, 4};
inline constexpr Field device{"device", 24, 16};
inline constexpr Field boot{"boot id", 40, 16};
inline constexpr Field segment{"segment id", 56, 16};
inline constexpr Field segment_size{"segment", 72, 8};
inline constexpr Field offset{"range", 80, 8};
inline constexpr Field bytes{"range", 88, 8};
inline constexpr Field alignment{"alignment", 96, 8};
inline constexpr Field backend{"backend", 104, 16};
inline constexpr Field driver{"driver", 120, 64};
inline constexpr Field reserved{"reserved", 184, 64};
inline constexpr Field checksum{"checksum", 248, 8};
inline constexpr Field all[] = {magic,   version,      size,   handle, kind,      fd_count, flags,  device,   boot,
                                segment, segment_size, offset, bytes,  alignment, backend,  driver, reserved, checksum};

/// The number in the field, little-endian.
std::uint64_t get(std::span<const std::byte> descriptor, const Field& field);
/// The descriptor with another number there and a checksum that fits.
Bytes with(std::span<const std::byte> descriptor, const Field& field, std::uint64_t value);
/// The descriptor with byte `at` changed by `change` (exclusive or) and a checksum that fits.
Bytes flipped(std::span<const std::byte> descriptor, std::size_t at, std::byte change);

}  // namespace weir::test::wire
