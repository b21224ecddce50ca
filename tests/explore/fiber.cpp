// SPDX-License-Identifier: Apache-2.0
#include "fiber.hpp"

#include <cxxabi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <new>

#include "sanitizers.hpp"

#if defined(__x86_64__)
// Saves what a call preserves, takes the other stack, and returns there.
asm(R"(
.text
.p2align 4
.type weir_explore_switch, @function
weir_explore_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size weir_explore_switch, . - weir_explore_switch
)");
extern "C" void weir_explore_switch(void** from, void* to) noexcept asm("weir_explore_switch");
#endif

namespace weir::explore {
namespace {

constexpr std::size_t stack_bytes = std::size_t{512} << 10;
Fiber* left = nullptr;     // the fiber that ran before
Fiber* arrived = nullptr;  // the one that runs

}  // namespace

Fiber::Fiber(void (*entry)()) : entry_(entry) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  memory_ =
      mmap(nullptr, page + stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory_ == MAP_FAILED) throw std::bad_alloc();
  (void)mprotect(memory_, page, PROT_NONE);
  auto* const low = static_cast<std::byte*>(memory_) + page;
  stack_ = low;
  stack_bytes_ = stack_bytes;
  register_root(low, stack_bytes);
#if defined(__x86_64__)
  // What the switch takes off: six registers, then the address to return to. A function begins 8 bytes off alignment.
  auto* const top = reinterpret_cast<void**>(low + stack_bytes) - 1;
  *top = nullptr;  // nobody called it
  top[-1] = reinterpret_cast<void*>(&Fiber::enter);
  for (int i = 2; i <= 7; ++i) top[-i] = nullptr;
  at_ = top - 7;
#else
  getcontext(&context_);
  context_.uc_stack.ss_sp = low;
  context_.uc_stack.ss_size = stack_bytes;
  makecontext(&context_, &Fiber::enter, 0);
#endif
}

Fiber::~Fiber() {
  if (!memory_) return;
  unregister_root(stack_, stack_bytes_);
  munmap(memory_, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + stack_bytes);
}

void Fiber::enter() noexcept {
  arrived->arrive();
  arrived->entry_();
}

void Fiber::switch_to(Fiber& next) noexcept {
  static_assert(sizeof caught_ == 2 * sizeof(void*));  // a list and a count
  std::memcpy(caught_, abi::__cxa_get_globals(), sizeof caught_);
  left = this;
  arrived = &next;
  start_switch(&fake_stack_, next.stack_, next.stack_bytes_);
#if defined(__x86_64__)
  weir_explore_switch(&at_, next.at_);
#else
  swapcontext(&context_, &next.context_);
#endif
  arrive();
}

void Fiber::arrive() noexcept {
  finish_switch(fake_stack_, &left->stack_, &left->stack_bytes_);
  std::memcpy(abi::__cxa_get_globals(), caught_, sizeof caught_);
}

}  // namespace weir::explore
