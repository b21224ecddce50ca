// SPDX-License-Identifier: Apache-2.0
#pragma once
// Host memory: ordinary, in a sealed memfd, or somebody else's.

#include <cstdint>

#include "weir/spi/backend.hpp"

namespace weir::host {

/// DLPack's kDLCPU.
inline constexpr std::int32_t dlpack_cpu = 1;
/// A bit of SegmentRequest::flags, for pageable memory.
inline constexpr std::uint64_t huge_pages = 1;
/// A bit of SegmentRequest::flags, for shared memory: no process but this one can ever write it.
inline constexpr std::uint64_t read_only_for_peers = 2;

spi::Segment* reserve(spi::DeviceState& device, const spi::SegmentRequest& request, Shortage& shortage);
spi::ExportedHandle export_handle(spi::Segment& segment);
spi::ExportedHandle export_to_readers(spi::Segment& segment);
bool imports(const spi::DeviceState& device, spi::HandleKind kind) noexcept;
spi::Segment* import_handle(spi::DeviceState& device, spi::ImportRequest request);
spi::Segment* wrap(spi::DeviceState& device, std::uint64_t address, std::size_t bytes);

}  // namespace weir::host
