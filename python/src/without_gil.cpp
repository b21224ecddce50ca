// SPDX-License-Identifier: Apache-2.0

#include <unistd.h>

#include <utility>

#include "bind.hpp"

namespace weir::python {

void wait_for_the_end_of_the_process() noexcept {
  for (;;) ::pause();
}

// A thread that asks for the GIL after the interpreter has ended stops here, as it does in Python 3.14.
void WithoutGil::end() noexcept {
  PyThreadState* const state = std::exchange(state_, nullptr);
  if (!state) return;
  try {
    PyEval_RestoreThread(state);
  } catch (...) {
    wait_for_the_end_of_the_process();
  }
}

WithGil::WithGil() noexcept {
  try {
    state_ = PyGILState_Ensure();
  } catch (...) {
    wait_for_the_end_of_the_process();
  }
}

}  // namespace weir::python
