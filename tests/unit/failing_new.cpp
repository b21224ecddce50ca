// SPDX-License-Identifier: Apache-2.0
#include "failing_new.hpp"

#include <cstddef>
#include <new>

namespace {

thread_local int left = -1;
thread_local bool failed = false;

}  // namespace

void weir::test::fail_allocation_after(int before) noexcept {
  left = before;
  failed = false;
}

bool weir::test::allocation_failed() noexcept { return failed; }

// What the linker puts where this program's own code calls operator new; other libraries keep theirs.
extern "C" void* __real__Znwm(std::size_t bytes);
extern "C" void* __wrap__Znwm(std::size_t bytes) {
  if (left >= 0 && left-- == 0) {
    failed = true;
    throw std::bad_alloc();
  }
  return __real__Znwm(bytes);
}
