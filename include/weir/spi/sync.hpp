// SPDX-License-Identifier: Apache-2.0
#pragma once
// The primitives on which every protocol without a plain mutex stands. Such a protocol is a file of its own and uses
// nothing else, so that a test can put instrumented ones in their place and try all interleavings (tests/explore).

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace weir::sync {

template <class T>
using Atomic = std::atomic<T>;
/// A number or a pointer that is not atomic, because the protocol orders all accesses to it. In a test they are checked.
template <class T>
using Plain = T;
using Mutex = std::mutex;
using Condition = std::condition_variable;
using Thread = std::thread;
/// For whoever waits no longer than until a time.
using Clock = std::chrono::steady_clock;

/// Unique among the threads that live.
using ThreadId = std::uintptr_t;
inline ThreadId this_thread() noexcept {
#if defined(__x86_64__)
  ThreadId self;
  asm("mov %%fs:0, %0" : "=r"(self));
  return self;
#else
  return static_cast<ThreadId>(pthread_self());
#endif
}

inline Thread::id thread_id() noexcept { return std::this_thread::get_id(); }

/// False in every thread at its beginning. One for each Tag.
template <class Tag>
bool& flag_of_thread() noexcept {
  static constinit thread_local bool flag = false;
  return flag;
}

/// How often one thread in a row has to do something before it is worth something for others.
inline constexpr std::uint32_t often = 128;

/// The cheap half of a pair of barriers: keeps the compiler, but not the processor, from moving accesses across it.
inline void light_barrier() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }
/// The dear half: a full barrier on every thread of the process that runs at this moment, and on this one.
void heavy_barrier() noexcept;
/// Whether the kernel has that, as far as can be told; else do not rely on light barriers. Asks the kernel once, which takes
/// milliseconds in a process with many threads.
[[nodiscard]] bool has_heavy_barrier() noexcept;

/// Between two looks at what another thread is about to change. Gives the core away, and sleeps after some rounds: the
/// other thread may have a lower priority.
void pause(unsigned round) noexcept;

}  // namespace weir::sync
