// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a wait does for spi::Interruptible.

#include "ipc/channel/deadline.hpp"

namespace weir::detail {

/// Return how long this thread may wait at once, as poll() takes it: until the deadline, or for a slice.
[[nodiscard]] int slice_of(const channel::Deadline& deadline) noexcept;
/// The same as a moment.
[[nodiscard]] channel::Deadline end_of_slice(const channel::Deadline& deadline) noexcept;
/// Call the check of this thread, if it has one. Throws what that throws. Must be called without locks.
void check_interruption();

}  // namespace weir::detail
