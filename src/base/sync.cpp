// SPDX-License-Identifier: Apache-2.0
#include "weir/spi/sync.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace weir::sync {
namespace {

long membarrier(int command) noexcept { return syscall(SYS_membarrier, command, 0, 0); }

}  // namespace

// A forked child is not registered for barriers, and a system-call filter may have been installed since the kernel was
// first asked. If the kernel refuses every barrier, this relies on the fact that no processor keeps a store to itself
// for long.
void heavy_barrier() noexcept {
  constexpr std::chrono::milliseconds long_enough{20};
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) return;
  if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) return;
  if (membarrier(MEMBARRIER_CMD_GLOBAL) == 0) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  std::this_thread::sleep_for(long_enough);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

// A system-call filter may allow the registration and refuse the barrier, so both are tried. That takes milliseconds,
// in which another thread may fork: so it is no variable whose making the child would wait for. The thread sanitizer
// does not know what such a barrier orders.
bool has_heavy_barrier() noexcept {
#if defined(__SANITIZE_THREAD__)
  return false;
#else
  enum Known : std::uint8_t { nothing, works, fails };
  static constinit std::atomic<Known> known = nothing;
  if (known.load(std::memory_order_relaxed) == nothing) {
    const bool done =
        membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
    known.store(done ? works : fails, std::memory_order_relaxed);
  }
  return known.load(std::memory_order_relaxed) == works;
#endif
}

void pause(unsigned round) noexcept {
  constexpr unsigned yields = 64, longest = 10;
  if (round < yields) return std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::microseconds{1U << std::min(round - yields, longest)});
}

}  // namespace weir::sync
