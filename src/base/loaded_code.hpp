// SPDX-License-Identifier: Apache-2.0
#pragma once
// The library's own code, when it is part of something that can be unloaded.

namespace weir::detail {

/// Keep the shared object that holds this library loaded for good, whatever is dlclosed: worker threads, exit handlers and
/// drivers' callbacks run its code. Does nothing in an executable. docs/adr/0006-plug-ins.md
void keep_code_loaded() noexcept;

}  // namespace weir::detail
