// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "weir/host.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/device_state.hpp"

namespace weir::test {

/// A device of a backend of its own. Devices are never destroyed.
struct OtherDevice final : spi::DeviceState {
  explicit OtherDevice(bool survives_fork = true) {
    table = *host_device().state().backend;
    table.name = "other";
    table.survives_fork = survives_fork;
    backend = &table;
  }
  spi::Backend table;
};

}  // namespace weir::test
