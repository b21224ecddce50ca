// SPDX-License-Identifier: Apache-2.0
#pragma once
// Keeps the library's own code loaded when it is part of a shared object that can be unloaded.

#include <atomic>

namespace weir::detail {

inline constinit std::atomic<bool> code_stays_loaded{false};
void keep_code_loaded_now() noexcept;

/// Keep the shared object that contains this library loaded for good, whatever is dlclosed, because worker threads,
/// exit handlers and drivers' callbacks run its code. Does nothing when the library is part of the executable. Whatever
/// can lead to the first thread of the library calls this before it takes a lock: here the loader's lock is taken, and
/// somebody who has that one may end objects of this library in the destructors of a shared object. Costs a load once
/// it was called.
inline void keep_code_loaded() noexcept {
  if (!code_stays_loaded.load(std::memory_order_acquire)) keep_code_loaded_now();
}

}  // namespace weir::detail
