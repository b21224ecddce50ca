// SPDX-License-Identifier: Apache-2.0

#include <unistd.h>

#include <utility>

#include "bind.hpp"

namespace weir::python {
namespace {

[[noreturn]] void wait_for_the_end_of_the_process() noexcept {
  for (;;) ::pause();
}

}  // namespace

// Python before 3.14 ends a thread that asks for the GIL after the interpreter has ended. It does so by unwinding the
// stack, which may not pass the functions of C++ below. So such a thread stops here, as it does in newer Pythons.
void WithoutGil::end() noexcept {
  PyThreadState* const state = std::exchange(state_, nullptr);
  if (!state) return;
  try {
    PyEval_RestoreThread(state);
  } catch (...) {
    wait_for_the_end_of_the_process();
  }
}

}  // namespace weir::python
