// SPDX-License-Identifier: Apache-2.0
#pragma once
// A context of execution with a stack of its own. All fibers take turns on one thread of the operating system.

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace weir::explore {

class Fiber {
 public:
  /// The context that is running already.
  Fiber() noexcept = default;
  /// A new one, which calls `entry` when it is first switched to. `entry` must not return.
  explicit Fiber(void (*entry)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Called on the running fiber. Returns when somebody switches back.
  void switch_to(Fiber& next) noexcept;

 private:
  static void enter() noexcept;
  void arrive() noexcept;

  void (*entry_)() = nullptr;
  void* memory_ = nullptr;  ///< with a page in front of the stack that nobody can touch
  const void* stack_ = nullptr;
  std::size_t stack_bytes_ = 0;
  void* fake_stack_ = nullptr;              ///< the address sanitizer's
  alignas(16) unsigned char caught_[16]{};  ///< exceptions being handled, which the C++ run-time keeps by thread
#if defined(__x86_64__)
  void* at_ = nullptr;  ///< the stack pointer while another one runs
#else
  ucontext_t context_{};
#endif
};

}  // namespace weir::explore
