// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stands in front of include/weir/spi/sync.hpp: the same names, with the explorer behind them.

#include <cstddef>
#include <cstdint>

#include "atomic.hpp"
#include "mutex.hpp"
#include "plain.hpp"

#define WEIR_EXPLORED 1

namespace weir::sync {

template <class T>
using Atomic = explore::Atomic<T>;
template <class T>
using Plain = explore::Plain<T>;
using Mutex = explore::Mutex;
using Condition = explore::Condition;
using Thread = explore::Thread;
using Clock = explore::SteadyClock;

using ThreadId = std::uintptr_t;
inline ThreadId this_thread() noexcept {
  return explore::running ? explore::running->system_id() : 0x100;
}
inline Thread::id thread_id() noexcept { return Thread::id(this_thread()); }
inline void name_thread(const char* /*name*/) noexcept {}

template <class Tag>
bool& flag_of_thread() noexcept {
  static constinit bool outside = false;
  return explore::running ? explore::running->flag(&outside) : outside;
}

inline constexpr std::uint32_t often = 2;  // or no search would get there

inline void light_barrier(explore::Where where = explore::Where::here()) noexcept {
  if (explore::running) explore::running->light_barrier(where);
}
inline void heavy_barrier(explore::Where where = explore::Where::here()) noexcept {
  if (explore::running) explore::running->heavy_barrier(where);
}
[[nodiscard]] inline bool has_heavy_barrier() noexcept {
  return !explore::present || explore::present->has_heavy_barrier();
}
inline void pause(unsigned /*round*/, explore::Where where = explore::Where::here()) noexcept {
  if (explore::running) explore::running->pause(where);
}

}  // namespace weir::sync
