// SPDX-License-Identifier: Apache-2.0
#pragma once
// What every way of sharing memory with another process needs to know of it.

#include "ipc/wire.hpp"
#include "weir/access.hpp"
#include "weir/buffer.hpp"
#include "weir/spi/segment.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::detail {

/// Throw unsupported or invalid_argument, in the name of `operation`, if the buffer cannot go to another process with
/// that access.
void check_shareable(const char* operation, const Buffer& buffer, ipc::Access access);

/// Throw unsupported, in the name of `operation`, if memory of the device cannot be lent with that access.
void check_access(const char* operation, const spi::DeviceState& device, ipc::Access access);

/// Return the access that a process gets which is to have `asked`. Nobody gets more than this process has.
[[nodiscard]] ipc::Access granted(const spi::Segment& segment, ipc::Access asked) noexcept;

/// What names a whole segment for another process.
struct Described {
  WireDescriptor wire;
  spi::UniqueFd file;
};

/// Name the segment for a process that gets that access, at most.
[[nodiscard]] Described describe_memory(spi::Segment& segment, ipc::Access asked);

}  // namespace weir::detail
