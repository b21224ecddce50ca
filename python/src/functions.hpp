// SPDX-License-Identifier: Apache-2.0
#pragma once
// Functions of Python that weir calls: on any thread, also while Python ends.

#include <atomic>
#include <exception>
#include <memory>
#include <utility>

#include "owners.hpp"

namespace weir::python {

/// A function of Python that weir may call and drop on any thread.
class Function {
 public:
  explicit Function(nb::handle function) : function_(function) {}
  Function(const Function&) = delete;
  Function& operator=(const Function&) = delete;
  ~Function() { drop(); }

  /// Return the function, or nothing after it was dropped. Needs the GIL.
  [[nodiscard]] nb::object get() const { return dropped_ ? nb::object() : nb::borrow(function_.object()); }
  /// Drop the reference.
  void drop() noexcept {
    if (!dropped_.exchange(true)) function_.drop();
  }

 private:
  Owner function_;
  std::atomic<bool> dropped_ = false;
};

/// Call a function of Python from a function of C++. Returns its answer, and throws its exception; or never returns, on a
/// daemon thread that outlives the interpreter. Needs the GIL.
template <class... Arguments>
nb::object call(const nb::object& function, Arguments&&... arguments) {
  try {
    return function(std::forward<Arguments>(arguments)...);
  } catch (const std::exception&) {
    throw;
  } catch (...) {
    wait_for_the_end_of_the_process();
  }
}

/// Keep a function until the last owner of the result is gone, at most until the interpreter ends. What a function
/// refers to often owns buffers of the resource that owns the function. The garbage collector cannot see such a circle,
/// so it is opened at the end. Needs the GIL. Throws TypeError, which names the argument, if this cannot be called.
std::shared_ptr<Function> function_of(nb::handle function, const char* argument);

/// Make the interpreter drop all functions at its end.
void drop_functions_at_exit();

}  // namespace weir::python
