// SPDX-License-Identifier: Apache-2.0
#pragma once
// Views: memory of one backend's device, used by a device of another backend that is the same hardware. A view is a
// segment of that other device. It is opened once per segment, on first use, and ends before the segment does. ADR 17
// says why.

#include <string_view>

#include "weir/export.hpp"
#include "weir/fwd.hpp"

namespace weir::spi {

/// Return whether `device` can have views of exportable memory of `owner`: they are one piece of hardware, and the
/// backend of `device` opens what the other one exports. Calls no driver.
[[nodiscard]] WEIR_API bool can_view(const DeviceState& device, const DeviceState& owner) noexcept;
/// Return whether `device` can have a view of this memory. Calls no driver.
[[nodiscard]] WEIR_API bool can_view(const DeviceState& device, const Segment& segment) noexcept;
/// Return the device of `backend` that can have views of exportable memory of `owner`, or null. An empty name stands
/// for every backend.
[[nodiscard]] WEIR_API DeviceState* viewer_of(const DeviceState& owner, std::string_view backend = {});

/// Return the view that `device` has of `segment`. The first call opens it, and asks both drivers for that. Throws what
/// they refuse, and unsupported where `can_view` is false. A later call asks again.
[[nodiscard]] WEIR_API Segment& view(DeviceState& device, Segment& segment);
/// Return the view that `device` has of `segment`, or null where there can be none. Where the drivers have refused it
/// once, they are not asked again, unless memory or files were short.
[[nodiscard]] WEIR_API Segment* try_view(DeviceState& device, Segment& segment) noexcept;

}  // namespace weir::spi
