// SPDX-License-Identifier: Apache-2.0
#pragma once
// Catches an exception, so that the caller can put its locks in order before it deals with the exception.

#include <exception>

namespace weir::detail {

/// Call `action` and return the exception that it throws, or null if it throws none.
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
