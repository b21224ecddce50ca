// SPDX-License-Identifier: Apache-2.0
#pragma once
// The bytes of a descriptor: fixed layout, little-endian, every byte written, every field checked. docs/descriptor.md
// specifies the format, and a golden-bytes test pins it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "weir/device.hpp"
#include "weir/spi/backend.hpp"

namespace weir::detail {

inline constexpr std::size_t wire_size = 256;
inline constexpr std::uint16_t wire_version = 1;

/// A descriptor in memory.
struct WireDescriptor {
  spi::HandleKind handle{};
  MemoryKind kind{};
  bool read_only = false;
  bool has_ready = false;         ///< a file descriptor says when the exporter's work is complete
  bool has_lease = false;         ///< the last file descriptor keeps the memory from being reused
  Uuid device;
  Uuid boot;                      ///< the kernel's boot id: names the machine and its boot
  spi::SegmentId segment;
  std::uint64_t segment_size = 0;
  std::uint64_t offset = 0;       ///< of the buffer in the segment
  std::uint64_t size = 0;
  std::uint64_t alignment = 0;
  std::string backend;            ///< at most 15 bytes
  std::string driver;             ///< at most 63 bytes; longer names are cut

  [[nodiscard]] std::size_t fd_count() const noexcept { return 1U + (has_ready ? 1 : 0) + (has_lease ? 1 : 0); }
};

using WireBytes = std::array<std::byte, wire_size>;

[[nodiscard]] WireBytes encode(const WireDescriptor& descriptor);

/// Decode a descriptor and check it. Throws corrupt_descriptor, which names the field, or incompatible for another
/// version.
[[nodiscard]] WireDescriptor decode(std::span<const std::byte> bytes);

/// Return the part of a driver's name that fits in a descriptor.
[[nodiscard]] std::string wire_driver(const std::string& driver);

}  // namespace weir::detail
