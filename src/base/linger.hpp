// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long threads of the library stay without work.

#include <atomic>
#include <chrono>

namespace weir::detail {

/// A thread of the library that has run out of work stays this long, so that not every burst of work starts a thread.
/// Tests that wait for the ends of threads thousands of times shorten it.
inline constinit std::atomic<std::chrono::milliseconds> linger{std::chrono::milliseconds{50}};

}  // namespace weir::detail
