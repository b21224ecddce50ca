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

}  // namespace weir::detail
