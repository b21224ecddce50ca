// SPDX-License-Identifier: Apache-2.0
#pragma once
// What belongs to Python and is given up by weir, on any thread, with or without the GIL. After the interpreter has
// ended it is left alone.

#include <functional>

#include "bind.hpp"

namespace weir::python {

/// Return whether this thread has the GIL. It may be one of which Python has never heard.
[[nodiscard]] bool holds_the_gil() noexcept;
/// Call `function(argument)` with the GIL: at once if this thread has it, otherwise soon, on a thread that has it.
/// If an exception is set in that thread, it is put aside during the call.
void call_with_gil(void (*function)(void*), void* argument) noexcept;
/// Make the calls that threads without the GIL asked for. Needs the GIL.
void make_pending_calls() noexcept;

/// One reference to a Python object, to be dropped exactly once, on any thread.
class Owner {
 public:
  explicit Owner(nb::handle object) : object_{object.ptr()} { object.inc_ref(); }  ///< needs the GIL
  [[nodiscard]] nb::handle object() const noexcept { return object_; }             ///< valid until it is dropped
  void drop() noexcept {
    call_with_gil([](void* object) { Py_DECREF(static_cast<PyObject*>(object)); }, object_);
  }
  [[nodiscard]] std::function<void()> dropper() const {
    return [owner = *this]() mutable { owner.drop(); };
  }

 private:
  PyObject* object_;
};

}  // namespace weir::python
