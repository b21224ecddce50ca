// SPDX-License-Identifier: Apache-2.0
#pragma once
// Releases, which run once points have passed. One sort gives a segment back, the other calls a function.

#include <cstdint>
#include <functional>
#include <vector>

#include "stream/release_queue.hpp"
#include "weir/spi/points.hpp"
#include "weir/spi/segment.hpp"

namespace weir::detail {

/// What to do about points of which nobody will ever know when they pass.
enum class Unknown : bool {
  wait,  ///< for ever
  skip   ///< wait for the others only
};

/// Run `action`, which must not throw, once all `points` have passed: at once if they have passed already, else later
/// by way of `queue`. Throws for want of memory; then `action` does not run.
void run_after(ReleaseQueue& queue, std::vector<spi::Point> points, std::function<void()> action,
               Unknown unknown = Unknown::wait);

/// Run `action`, which must not throw, on the library's thread, or on one that looks after `queue` first. Throws for
/// want of memory; then `action` does not run.
void run_soon(ReleaseQueue& queue, std::function<void()> action);

/// Release the last reference to `segment` once `value` of `stream` has passed. If there is no memory to arrange that,
/// the segment is leaked, and that is reported.
void release_after(spi::Ref<spi::Segment> segment, spi::StreamState& stream, std::uint64_t value) noexcept;

/// Release a reference to `segment`. In a forked child, memory that belongs to the parent's driver is leaked.
void give_back(spi::Segment& segment) noexcept;

/// Wait until all segments of `device` that were given to release_after() before this call are released.
void drain_left(const spi::DeviceState& device);

/// Report that `bytes` of `device` will never be given back, because the library could not wait for their last use.
void report_leak(const spi::DeviceState& device, std::size_t bytes, const char* why) noexcept;

}  // namespace weir::detail
