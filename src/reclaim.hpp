// SPDX-License-Identifier: Apache-2.0
#pragma once
// Segments whose memory may go back to the driver once points have passed. Nobody waits for them: a worker does.

#include <functional>
#include <memory>
#include <vector>

#include "block_store.hpp"
#include "weir/spi/block.hpp"

namespace weir::detail {

/// Told when a segment is back at the driver, on any thread.
class ReclaimListener {
 public:
  virtual void segment_released(std::size_t bytes) noexcept = 0;

 protected:
  ~ReclaimListener() = default;
};

/// Release `segment` (the last reference) after all `points`; at once if they have passed and the driver's release
/// cannot block, in stream order if the driver can, else by the worker. `keep` lives until `listener` was told.
void release_after(spi::Ref<spi::Segment> segment, std::vector<spi::Point> points, bool release_blocks,
                   ReclaimListener& listener, std::shared_ptr<void> keep) noexcept;

/// Run `action` once all `points` have passed: at once if they have, else by the worker. Until then it counts as a release
/// of `device`. Must not throw.
void run_after(const spi::DeviceState& device, std::vector<spi::Point> points, std::function<void()> action);

/// Report that memory of `device` is never given back, because its last use could not be waited for.
void report_leak(const spi::DeviceState& device, std::size_t bytes, const char* why) noexcept;

/// End a block without owners: put it back into `blocks` and release its segment after all its points.
void end_block(spi::Block& block, BlockStore& blocks, bool release_blocks, ReclaimListener& listener,
               const std::shared_ptr<void>& keep) noexcept;

/// Whether this is the worker's thread, in an action.
[[nodiscard]] bool in_release() noexcept;

// In an action, the following wait for nothing: it would be for the action itself.

/// Wait until every release for `device` handed in before this call is done.
void drain_releases(const spi::DeviceState& device);

/// Wait for those whose points have passed, not for the others. True when something went back.
bool settle_releases(const spi::DeviceState& device);

}  // namespace weir::detail
