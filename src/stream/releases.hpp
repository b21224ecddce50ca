// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is released once points have passed: a segment, or whatever a function does.

#include <cstdint>
#include <functional>
#include <vector>

#include "stream/release_queue.hpp"
#include "weir/spi/points.hpp"
#include "weir/spi/segment.hpp"

namespace weir::detail {

/// Run `action` once all `points` have passed: at once if they have, else by the library's thread. Must not throw. Throws for
/// want of memory, and then does not.
void run_after(ReleaseQueue& queue, std::vector<spi::Point> points, std::function<void()> action);

/// Release the last reference of a segment once `value` of `stream` has passed. Without memory for that, it is leaked.
void release_after(spi::Ref<spi::Segment> segment, spi::StreamState& stream, std::uint64_t value) noexcept;

/// Release a reference of a segment. In a forked child, memory that the parent's driver has is leaked.
void give_back(spi::Segment& segment) noexcept;

/// Wait for those of that device that are handed over so far.
void drain_left(const spi::DeviceState& device);

/// Report that memory of `device` is never given back, because its last use could not be waited for.
void report_leak(const spi::DeviceState& device, std::size_t bytes, const char* why) noexcept;

}  // namespace weir::detail
