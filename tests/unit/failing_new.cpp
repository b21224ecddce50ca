// SPDX-License-Identifier: Apache-2.0
#include "failing_new.hpp"

#include <cstdlib>
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

void* operator new(std::size_t bytes) {
  if (left >= 0 && left-- == 0) {
    failed = true;
    throw std::bad_alloc();
  }
  void* memory = std::malloc(bytes ? bytes : 1);
  if (!memory) throw std::bad_alloc();
  return memory;
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
