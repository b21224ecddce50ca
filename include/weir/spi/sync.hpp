// SPDX-License-Identifier: Apache-2.0
#pragma once
// The primitives on which every protocol without a plain mutex stands. Such a protocol is a file of its own and uses no
// other primitives, so that a test can put instrumented ones in their place and try all interleavings (tests/explore).

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

/// The primitives under protocols that use no plain mutex.
namespace weir::sync {

/// What several threads read and write at a time.
template <class T>
using Atomic = std::atomic<T>;
/// A number or a pointer that is not atomic, because the protocol orders all accesses to it. Tests check those
/// accesses.
template <class T>
using Plain = T;
using Mutex = std::mutex;                   ///< a plain lock
using Condition = std::condition_variable;  ///< what a thread with a lock sleeps on
using Thread = std::thread;                 ///< a thread of the library
/// The clock of waits that end at a given time.
using Clock = std::chrono::steady_clock;

/// Identifies a thread; unique among the threads that are alive.
using ThreadId = std::uintptr_t;
/// Return the calling thread. Costs one load on x86-64.
inline ThreadId this_thread() noexcept {
#if defined(__x86_64__)
  ThreadId self;
  asm("mov %%fs:0, %0" : "=r"(self));
  return self;
#else
  return static_cast<ThreadId>(pthread_self());
#endif
}

/// Return the calling thread, in the form of the standard library.
inline Thread::id thread_id() noexcept { return std::this_thread::get_id(); }

/// Call this thread `name`, of at most 15 characters, where debuggers and profilers list the threads of a process.
inline void name_thread(const char* name) noexcept { (void)pthread_setname_np(pthread_self(), name); }

/// Return this thread's flag for `Tag`, which is false when the thread begins.
template <class Tag>
bool& flag_of_thread() noexcept {
  static constinit thread_local bool flag = false;
  return flag;
}

/// How many times in a row one thread has to do something before favouring that thread is worth its price to others.
inline constexpr std::uint32_t often = 128;

/// The cheap half of a pair of barriers. It keeps the compiler, but not the processor, from moving accesses across it.
inline void light_barrier() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }
/// The expensive half of the pair: a full barrier on this thread, and on every other thread of the process that runs at
/// this moment.
void heavy_barrier() noexcept;
/// Return whether the kernel has such a barrier, as far as can be told. If it has none, do not rely on light barriers.
/// The kernel is asked once, which takes milliseconds in a process with many threads.
[[nodiscard]] bool has_heavy_barrier() noexcept;

/// Pause between two looks at something that another thread is about to change. Gives the core away, and sleeps after
/// some rounds, because the other thread may have a lower priority.
void pause(unsigned round) noexcept;

}  // namespace weir::sync
