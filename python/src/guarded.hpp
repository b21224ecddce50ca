// SPDX-License-Identifier: Apache-2.0
#pragma once
// Functions that Python calls through C slots: no exception may leave them.

#include "bind.hpp"

namespace weir::python {

/// Turn the exception in flight into Python's. A weir::Error that says "unsupported" or "incompatible" is a
/// BufferError: this memory cannot be shown so.
void set_current_exception() noexcept;

/// A new reference to what `f` returns, or null with a Python exception set.
template <class F>
PyObject* guarded(F&& f) noexcept {
  try {
    return f().release().ptr();
  } catch (...) {
    set_current_exception();
    return nullptr;
  }
}

}  // namespace weir::python
