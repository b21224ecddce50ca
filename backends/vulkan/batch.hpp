// SPDX-License-Identifier: Apache-2.0
#pragma once
// What was submitted together, and what a stream leaves behind.

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "slot.hpp"
#include "timeline.hpp"

namespace weir::vulkan {

struct Batch {
  std::uint64_t value = 0;                        ///< signalled when it is done
  std::unique_ptr<Slot> slot;                     ///< null when it only waits or signals
  std::vector<std::shared_ptr<Timeline>> waited;  ///< alive until it is done
};

/// Batches on their way, oldest first, and the timeline that they signal. Destroyed once `timeline` reached `value`.
struct Flight {
  std::shared_ptr<Timeline> timeline;
  std::uint64_t value = 0;  ///< last one submitted
  std::list<Batch> batches;
};

}  // namespace weir::vulkan
