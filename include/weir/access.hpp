// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a process that lends memory lets others do with it. Read ipc.hpp and channel.hpp.

#include <cstdint>

namespace weir::ipc {

/// What another process may do with memory that it is lent.
enum class Access : std::uint8_t {
  read_write,  ///< everything
  read_only    ///< read it: its buffers are read-only; docs/ipc.md says who enforces that for which memory
};

}  // namespace weir::ipc
