// SPDX-License-Identifier: Apache-2.0

#include "owners.hpp"

#include <dlfcn.h>

#include <atomic>
#include <memory>
#include <new>

namespace weir::python {
namespace {

struct PendingCall {
  void (*function)(void*);
  void* argument;
  PendingCall* next = nullptr;
};

std::atomic<PendingCall*> pending{nullptr};

/// Make the call. An exception that is on its way in this thread is kept from it.
void make_call(void (*function)(void*), void* argument) {
  if (!PyErr_Occurred()) return function(argument);
  const nb::error_scope kept;
  function(argument);
}

}  // namespace

// The stable ABI has no name for this question. Every Python answers it so far; without an answer, calls are made
// later. PyGILState_Check() answers yes to everybody once there has been a second interpreter.
bool holds_the_gil() noexcept {
  static const auto current = [] {
    void* const known = dlsym(RTLD_DEFAULT, "PyThreadState_GetUnchecked");  // since 3.13
    return reinterpret_cast<PyThreadState* (*)()>(known ? known : dlsym(RTLD_DEFAULT, "_PyThreadState_UncheckedGet"));
  }();
  PyThreadState* const mine = current ? PyGILState_GetThisThreadState() : nullptr;
  return mine && current() == mine;
}

void call_with_gil(void (*function)(void*), void* argument) noexcept {
  if (!Py_IsInitialized()) return;
  if (holds_the_gil()) return make_call(function, argument);
  auto* const call = new (std::nothrow) PendingCall{function, argument};
  if (!call)
    return report({std::make_error_code(std::errc::not_enough_memory), "giving up an object of Python",
                   "there is no memory to remember it for a thread with the GIL, so it is never given up"});
  call->next = pending.load(std::memory_order_relaxed);
  while (!pending.compare_exchange_weak(call->next, call, std::memory_order_release, std::memory_order_relaxed)) {
  }
  // If Python's own queue is full, nothing is lost: the next wait or close makes the calls.
  Py_AddPendingCall([](void*) { return make_pending_calls(), 0; }, nullptr);
}

void make_pending_calls() noexcept {
  PendingCall* call = pending.exchange(nullptr, std::memory_order_acquire);
  while (call) {
    const std::unique_ptr<PendingCall> mine{call};
    call = call->next;
    make_call(mine->function, mine->argument);
  }
}

}  // namespace weir::python
