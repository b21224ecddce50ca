// SPDX-License-Identifier: Apache-2.0
#pragma once
// Functions that Python calls through C slots: no exception may leave them.

#include "bind.hpp"

namespace weir::python {

/// Turn the exception in flight into one of Python's. A weir::Error that says "unsupported" or "incompatible" becomes a
/// BufferError: this memory cannot be shown in the way that was asked for.
void set_current_exception() noexcept;

/// Turn the exception in flight into one of Python's as nanobind does: a weir::Error becomes weir.Error.
void set_plain_exception() noexcept;

/// Call `f` as a function of weir's own, not of a protocol. Returns a new reference to its result, or null with a Python
/// exception set.
template <class F>
PyObject* plainly(F&& f) noexcept {
  try {
    return f().release().ptr();
  } catch (...) {
    set_plain_exception();
    return nullptr;
  }
}

/// Call `f`. Returns a new reference to its result, or null with a Python exception set.
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
