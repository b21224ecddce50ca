// SPDX-License-Identifier: Apache-2.0
#pragma once
// Resources of which a process has one for each device.

#include <memory>

#include "weir/memory_resource.hpp"
#include "weir/spi/device_state.hpp"

namespace weir::detail {

/// Return what `make` made of that device, in the first call with both of them. It never ends.
MemoryResource& resource_of(spi::DeviceState& device, std::shared_ptr<MemoryResource> (*make)(spi::DeviceState&));

/// Return the `Resource` of that device, which the first call makes. It never ends.
template <class Resource>
Resource& resource_of(spi::DeviceState& device) {
  return static_cast<Resource&>(resource_of(device, [](spi::DeviceState& of) -> std::shared_ptr<MemoryResource> {
    return std::make_shared<Resource>(of);
  }));
}

}  // namespace weir::detail
