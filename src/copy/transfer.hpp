// SPDX-License-Identifier: Apache-2.0
#pragma once
// Puts copies between any two memories, and fills, on a stream. plan_copy() decides how a copy goes.

#include <cstddef>
#include <span>

#include "copy/region.hpp"
#include "weir/spi/block.hpp"
#include "weir/stream.hpp"

namespace weir::detail {

/// A place in an allocation, with the block on which its uses are recorded.
struct Place {
  spi::Block* block;
  std::size_t offset;  ///< from byte 0 of the segment
  [[nodiscard]] spi::Segment& segment() const noexcept { return *block->segment; }
};

/// For all of these functions, sizes are > 0 and in range, and copies do not overlap.
void transfer(const Place& dst, const Place& src, std::size_t bytes, const Stream& stream);
/// The same for a region. `placed` counts both sides from byte 0 of their segments.
void transfer(spi::Block& dst, spi::Block& src, const PlacedRegion& placed, const Stream& stream);
void transfer_in(const Place& dst, std::span<const std::byte> src, const Stream& stream);
void transfer_out(std::span<std::byte> dst, const Place& src, const Stream& stream);
/// Move the memory to `to`, which must be a device that StreamOps::prefetches accepts for the memory's device and kind.
void prefetch(const Place& place, std::size_t bytes, spi::DeviceState& to, const Stream& stream);
void fill(const Place& dst, std::size_t bytes, std::uint64_t pattern, std::uint32_t pattern_bytes,
          const Stream& stream);
/// Repeat `pattern`, which has any size that divides that of a row, over each row that `placed` writes. Only the
/// destination counts.
void fill(spi::Block& dst, const PlacedRegion& placed, std::span<const std::byte> pattern, const Stream& stream);

}  // namespace weir::detail
