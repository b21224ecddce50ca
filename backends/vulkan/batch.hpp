// SPDX-License-Identifier: Apache-2.0
#pragma once
// Commands that were submitted together, and what a stream leaves behind when it ends.

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "slot.hpp"
#include "timeline.hpp"

namespace weir::vulkan {

struct Batch {
  std::uint64_t value = 0;                        ///< signalled when the batch is complete
  std::unique_ptr<Slot> slot;                     ///< null when the batch only waits or signals
  std::unique_ptr<Slot> after;                    ///< what follows an application's commands; else null
  std::vector<std::shared_ptr<Timeline>> waited;  ///< kept alive until the batch is complete
};

/// Batches that were submitted, oldest first, and the timeline that they signal. Destroyed once `timeline` has reached
/// `value`.
struct Flight {
  std::shared_ptr<Timeline> timeline;
  std::uint64_t value = 0;  ///< the last value submitted
  std::list<Batch> batches;
};

}  // namespace weir::vulkan
