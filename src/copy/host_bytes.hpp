// SPDX-License-Identifier: Apache-2.0
#pragma once
// Copies and fills that the host itself does, on any memory that it can address. Non-coherent mappings are kept in step
// with the device.

#include <cstddef>
#include <cstdint>
#include <span>

#include "weir/spi/region.hpp"
#include "weir/spi/segment.hpp"

namespace weir::detail {

void copy_host(spi::Location dst, spi::Location src, std::size_t bytes);
void copy_host(spi::Location dst, std::span<const std::byte> src);
void copy_host(std::span<std::byte> dst, spi::Location src);
void copy_host(const spi::RegionOp& op);
/// Repeat `pattern` over `bytes`, which must be a multiple of `pattern_bytes`.
void fill_host(spi::Location dst, std::size_t bytes, std::uint64_t pattern, std::uint32_t pattern_bytes);
/// Repeat `block` over each row of a region, the first of which is at `dst`. A row has at least its size. The sources
/// of all rows are one: their steps are 0.
void fill_host(spi::Location dst, const spi::Region& region, std::span<const std::byte> block);

}  // namespace weir::detail
