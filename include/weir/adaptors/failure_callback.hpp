// SPDX-License-Identifier: Apache-2.0
#pragma once
// What to do when memory runs out: spill something and try again.

#include <cstddef>
#include <functional>

#include "weir/error.hpp"
#include "weir/memory_resource.hpp"

namespace weir {

/// A request that upstream could not serve.
struct AllocationFailure {
  std::size_t bytes;
  std::size_t alignment;
  const Stream& stream;
  std::size_t attempt;       ///< 1 at the first call for this request
  const Shortage& shortage;  ///< what upstream said, this time
};

/// Returns whether to ask upstream again. Called without any lock, by the thread that wants the memory;
/// threads that run out at once call it at once. It may close, allocate and trim, also of the resource that
/// calls it: what it allocates there itself does not call it again but is refused. What it throws, the
/// allocation throws, and nothing is left behind.
using FailureCallback = std::function<bool(const AllocationFailure&)>;

struct FailureCallbackOptions {
  std::size_t max_attempts = 16;  ///< calls for one request; then it is refused
};

/// "failure_callback(upstream)": when upstream is out of memory, calls `callback` and asks again as long as
/// it says so. For `try_allocate`, too. Throws invalid_argument without an upstream, a function, or an
/// attempt.
[[nodiscard]] ResourcePtr make_failure_callback(ResourcePtr upstream, FailureCallback callback,
                                                const FailureCallbackOptions& options = {});

}  // namespace weir
