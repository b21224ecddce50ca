// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory of another process, from what that process says of it. Nothing that it says is trusted.

#include <span>

#include "ipc/wire.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/ref.hpp"
#include "weir/spi/segment.hpp"
#include "weir/spi/stranger_fd.hpp"

namespace weir::detail {

/// Return the device of this process that has the memory, which is `preferred` wherever it can be. Throws incompatible
/// when no device has it, and corrupt_descriptor when no device could.
[[nodiscard]] spi::DeviceState& device_of(const WireDescriptor& wire, spi::DeviceState& preferred);

/// Open the whole segment on the device that device_of() returned, and take its files or let go of them. On failure it
/// throws, has opened nothing, and the caller still has the files.
[[nodiscard]] spi::Ref<spi::Segment> open_memory(spi::DeviceState& device, const WireDescriptor& wire,
                                                 std::span<spi::StrangerFd> files);

/// The same for memory that will be joined, and needs no addresses of its own. It has one file. The device's backend
/// joins memory.
[[nodiscard]] spi::Ref<spi::Segment> open_part(spi::DeviceState& device, const WireDescriptor& wire,
                                               spi::StrangerFd& file);

/// Return a segment with the memory of all `parts` of `device`, one behind the other. Throws corrupt_descriptor for
/// memory that was never made to be joined.
[[nodiscard]] spi::Ref<spi::Segment> join_memory(spi::DeviceState& device, std::span<spi::Segment* const> parts);

}  // namespace weir::detail
