// SPDX-License-Identifier: Apache-2.0
#pragma once
// The backends of this build. CMake generates the list from the folders in backends/.

#include <span>
#include <string>
#include <vector>

#include "weir/spi/backend.hpp"

namespace weir::detail {

struct BackendEntry {
  const char* name;
  const spi::Backend* (*get)() noexcept;  ///< null when the backend was not built
  const char* skipped_because;
};

std::span<const BackendEntry> backend_entries() noexcept;

/// A backend and the devices that it found. The devices are listed once per process.
struct LoadedBackend {
  const spi::Backend* backend;  ///< null when not built
  std::string name;
  std::string reason;
  std::vector<spi::DeviceState*> devices;
};

/// Return all backends, highest rank first. The first call loads the drivers.
const std::vector<LoadedBackend>& loaded_backends();

/// Return the host's device. Loads no other backend.
spi::DeviceState& host_state();

}  // namespace weir::detail
