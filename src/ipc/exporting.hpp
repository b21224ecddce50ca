// SPDX-License-Identifier: Apache-2.0
#pragma once
// What every way of sharing memory with another process needs to know of it.

#include <cstddef>
#include <vector>

#include "ipc/wire.hpp"
#include "weir/access.hpp"
#include "weir/buffer.hpp"
#include "weir/spi/ref.hpp"
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

/// What another process opens of a buffer, and where the buffer is in that.
struct SharedPlace {
  spi::Segment* segment;
  std::size_t offset;
  spi::Ref<spi::Segment> keeps;  ///< the segment, unless the buffer keeps it
};

/// Return it for a buffer that can be shared. Called without locks: see PagedSegment::share. Throws unsupported, in the
/// name of `operation`, if the buffer lies in too many pages.
[[nodiscard]] SharedPlace shared_place(const char* operation, const Buffer& buffer);

/// What names a whole segment for another process.
struct Described {
  WireDescriptor wire;
  std::vector<spi::UniqueFd> files;
};

/// Name the segment for a process that gets that access, at most.
[[nodiscard]] Described describe_memory(spi::Segment& segment, ipc::Access asked);

}  // namespace weir::detail
