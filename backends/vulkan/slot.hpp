// SPDX-License-Identifier: Apache-2.0
#pragma once
// A command buffer with its own pool, and host-visible scratch memory that its commands read. Reused when its batch is
// complete.

#include <cstddef>

#include "driver.hpp"
#include "segment.hpp"

namespace weir::vulkan {

struct Slot {
  static constexpr std::size_t scratch_bytes = 64 * 1024;

  explicit Slot(Logical& logical);  ///< throws
  ~Slot();
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  /// Start recording, and forget what was recorded before. Throws.
  void begin();
  /// Find room for `bytes` (at most scratch_bytes) in the scratch memory. False when this batch has none left. Throws
  /// OutOfMemory.
  [[nodiscard]] bool take_scratch(std::size_t bytes, std::size_t& offset);

  Logical& logical;
  VkCommandPool pool = VK_NULL_HANDLE;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  spi::Ref<Memory> scratch;

 private:
  std::size_t scratch_used_ = 0;
};

}  // namespace weir::vulkan
