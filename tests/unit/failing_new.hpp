// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory that runs out on command: this program's operator new, wrapped by the linker.

namespace weir::test {

/// The allocation of this thread after `before` more throws std::bad_alloc, once. Negative: none does.
void fail_allocation_after(int before) noexcept;
/// Whether the one asked for last has failed by now.
bool allocation_failed() noexcept;

}  // namespace weir::test
