// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace weir::detail {

/// Return whether the exception that is being handled says that this process, its machine or a device has no memory, no
/// file or no thread to spare. That may pass.
[[nodiscard]] bool is_shortage() noexcept;

}  // namespace weir::detail
