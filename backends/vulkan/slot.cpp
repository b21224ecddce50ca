// SPDX-License-Identifier: Apache-2.0
#include "slot.hpp"

#include "device.hpp"
#include "errors.hpp"
#include "logical.hpp"
#include "weir/error.hpp"

namespace weir::vulkan {

Slot::Slot(Logical& on) : logical(on) {
  VkCommandPoolCreateInfo pool_info{};
  pool_info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool_info.flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
  pool_info.queueFamilyIndex = logical.device.family;
  check(logical.fn.vkCreateCommandPool(logical.handle, &pool_info, nullptr, &pool), "vkCreateCommandPool",
        logical.name());
  VkCommandBufferAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  info.commandPool = pool;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  if (VkResult result = logical.fn.vkAllocateCommandBuffers(logical.handle, &info, &commands); result < 0) {
    logical.fn.vkDestroyCommandPool(logical.handle, pool, nullptr);
    fail(result, "vkAllocateCommandBuffers", logical.name());
  }
}

Slot::~Slot() {
  const DriverCall call(Doing::destroy);
  if (call) logical.fn.vkDestroyCommandPool(logical.handle, pool, nullptr);
}

void Slot::begin() {
  scratch_used_ = 0;
  check(logical.fn.vkResetCommandPool(logical.handle, pool, 0), "vkResetCommandPool", logical.name());
  VkCommandBufferBeginInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  check(logical.fn.vkBeginCommandBuffer(commands, &info), "vkBeginCommandBuffer", logical.name());
}

bool Slot::take_scratch(std::size_t bytes, std::size_t& offset) {
  if (!scratch) {
    Shortage shortage;
    const PhysicalDevice& device = logical.device;
    const auto kind = device.find(MemoryKind::upload)->host_accessible ? MemoryKind::upload : device.staging_kind;
    scratch = spi::Ref<Memory>::adopt(Memory::make(logical, kind, scratch_bytes, false, shortage));
    if (!scratch) {
      shortage.requested = scratch_bytes;
      shortage.device = logical.name();
      shortage.resource = "scratch of fills";
      throw OutOfMemory(std::move(shortage));
    }
  }
  if (scratch_used_ + bytes > scratch_bytes) return false;
  offset = scratch_used_;
  scratch_used_ += (bytes + 7) & ~std::size_t{7};
  return true;
}

}  // namespace weir::vulkan
