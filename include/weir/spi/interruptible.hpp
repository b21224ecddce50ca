// SPDX-License-Identifier: Apache-2.0
#pragma once
// Waits for other processes that a signal ends: for bindings to languages that answer signals between their own
// instructions, as Python does.

#include "weir/export.hpp"

namespace weir::spi {

/// While this lives, waits of its thread for other processes are cut into slices, and `check` is called between them,
/// without locks: those of ipc::send, ipc::receive, ipc::Client, ipc::SetWriter and the constructor of ipc::SetReader.
/// What it throws ends the call, which leaves the connection as timed_out does. Must be destroyed on its thread, the
/// latest one first.
class WEIR_API Interruptible {
 public:
  using Check = void (*)();  ///< may throw
  explicit Interruptible(Check check) noexcept;  ///< `check` is called in place of that of an earlier one
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
  ~Interruptible();

 private:
  Check before_;
};

}  // namespace weir::spi
