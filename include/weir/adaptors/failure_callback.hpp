// SPDX-License-Identifier: Apache-2.0
#pragma once
// When memory runs out, call a function that can spill something, and try again.

#include <cstddef>
#include <functional>

#include "weir/error.hpp"
#include "weir/export.hpp"
#include "weir/memory_resource.hpp"

namespace weir {

/// A request that upstream could not serve.
struct AllocationFailure {
  std::size_t bytes;         ///< asked for
  std::size_t alignment;     ///< in bytes; at least default_alignment
  const Stream& stream;      ///< the allocation stream
  std::size_t attempt;       ///< 1 at the first call for this request
  const Shortage& shortage;  ///< what upstream said at this attempt
};

/// Returns whether to ask upstream again. Called without any lock, by the thread that wants the memory. Threads that
/// run out of memory at the same time call the callback at the same time. The callback may close, allocate and trim,
/// also on the resource that calls it. What it allocates there does not call it again, but is refused if upstream is
/// out of memory. If the callback throws, the allocation throws the same exception and leaves nothing behind.
using FailureCallback = std::function<bool(const AllocationFailure&)>;

/// Options of make_failure_callback.
struct FailureCallbackOptions {
  std::size_t max_attempts = 16;  ///< most calls for one request; after them the request is refused
};

/// Make "failure_callback(upstream)": when upstream is out of memory, it calls `callback`, and asks upstream again as
/// long as `callback` returns true. The same holds for `try_allocate`. Throws invalid_argument when `upstream` is null,
/// when there is no `callback`, and when `max_attempts` is 0.
[[nodiscard]] WEIR_API ResourcePtr make_failure_callback(ResourcePtr upstream, FailureCallback callback,
                                                         const FailureCallbackOptions& options = {});

}  // namespace weir
