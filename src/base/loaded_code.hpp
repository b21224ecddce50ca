// SPDX-License-Identifier: Apache-2.0
#pragma once
// Keeps the library's own code loaded when it is part of a shared object that can be unloaded.

namespace weir::detail {

/// Keep the shared object that contains this library loaded for good, whatever is dlclosed, because worker threads,
/// exit handlers and drivers' callbacks run its code. Does nothing when the library is part of the executable.
void keep_code_loaded() noexcept;

}  // namespace weir::detail
