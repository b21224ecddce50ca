// SPDX-License-Identifier: Apache-2.0
#pragma once
// The bytes of a descriptor: fixed layout, little-endian, every byte written, every field checked. docs/descriptor.md
// specifies the format, and golden-bytes tests pin it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weir/device.hpp"
#include "weir/spi/backend.hpp"

namespace weir::detail {

inline constexpr std::size_t wire_size = 256;        ///< bytes, of memory in one part
inline constexpr std::size_t wire_part_size = 8;     ///< bytes more for each part, if there are several
inline constexpr std::size_t most_wire_parts = 250;  ///< so that their files go in one message, with two more
inline constexpr std::size_t most_wire_size = wire_size + most_wire_parts * wire_part_size;

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
  std::vector<std::uint64_t> parts;  ///< sizes of the parts of the segment, each with a file; empty for one

  /// Files that name the memory. They come first.
  [[nodiscard]] std::size_t memory_files() const noexcept { return parts.empty() ? 1 : parts.size(); }
  [[nodiscard]] std::size_t fd_count() const noexcept {
    return memory_files() + (has_ready ? 1 : 0) + (has_lease ? 1 : 0);
  }
};

using WireBytes = std::vector<std::byte>;

[[nodiscard]] WireBytes encode(const WireDescriptor& descriptor);

/// Return how many bytes a descriptor has that begins with these wire_size bytes; wire_size if it is none.
[[nodiscard]] std::size_t whole_size(std::span<const std::byte> begin) noexcept;
/// Return how many files name the memory of a descriptor of so many bytes.
[[nodiscard]] constexpr std::size_t files_in(std::size_t wire_bytes) noexcept {
  return wire_bytes <= wire_size ? 1 : (wire_bytes - wire_size) / wire_part_size;
}

/// Decode a descriptor and check it. Throws corrupt_descriptor, which names the field, or incompatible for another
/// version.
[[nodiscard]] WireDescriptor decode(std::span<const std::byte> bytes);

/// Return the part of a driver's name that fits in a descriptor.
[[nodiscard]] std::string wire_driver(const std::string& driver);

}  // namespace weir::detail
