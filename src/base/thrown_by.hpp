// SPDX-License-Identifier: Apache-2.0
#pragma once
// An exception kept for when locks are in order again.

#include <exception>

namespace weir::detail {

/// What `action` throws; null when that is nothing.
template <class Action>
[[nodiscard]] std::exception_ptr thrown_by(Action&& action) noexcept {
  try {
    action();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace weir::detail
