// SPDX-License-Identifier: Apache-2.0
// What is recorded, and whether the pools and buffers of commands are at rest when they are used again. The driver is
// called without the lock: its validation then sees threads that record at once.
#include <span>

#include "world.hpp"

namespace judge {
namespace {

bool pending(const CommandBuffer& commands) { return !world().host.over.covers(commands.last); }

/// All of a pool is about to be recorded again, or to go.
void must_be_over(const char* call, VkDevice device, VkCommandPool pool) {
  const auto found = world().pools.find(pool);
  if (found == world().pools.end()) return;
  for (VkCommandBuffer handle : found->second) {
    if (!pending(world().commands.at(handle))) continue;
    violation(call, "commands of the pool are not known to be over");
    come_to_rest(*world().devices.at(device));
  }
}

void forget(CommandBuffer& commands) {
  commands.commands.clear();
  commands.unit = 0;
  commands.state = CommandBuffer::State::initial;
}

Part part_of(VkBuffer handle, VkDeviceSize offset, VkDeviceSize size, bool write, const char* call) {
  const auto found = world().buffers.find(handle);
  if (found == world().buffers.end() || !found->second->memory) {
    violation(call, "the buffer is unknown or has no memory");
    return {nullptr, 0, 0, write};
  }
  const auto& buffer = found->second;
  const Bytes end = size == VK_WHOLE_SIZE ? buffer->size : offset + size;
  if (end > buffer->size) violation(call, "it leaves the buffer");
  return {buffer, buffer->offset + offset, buffer->offset + end, write};
}

/// The list that a command goes to; null when its device is not judged.
std::vector<Command>* recording(VkCommandBuffer handle, const char* call) {
  auto* commands = find(world().commands, handle);
  if (commands && commands->state != CommandBuffer::State::recording) violation(call, "nothing is being recorded");
  return commands ? &commands->commands : nullptr;
}

}  // namespace

void record(VkCommandBuffer handle, const char* call, std::vector<Part> parts, Where where) {
  auto* list = recording(handle, call);
  if (!list) return;
  std::erase_if(parts, [](const Part& part) { return !part.buffer; });
  list->push_back(Touch{call, std::move(parts), where});
}

namespace calls {

VkResult vkCreateCommandPool(VkDevice device, const VkCommandPoolCreateInfo* info,
                             const VkAllocationCallbacks* allocator, VkCommandPool* made) {
  const VkResult result = next().vkCreateCommandPool(device, info, allocator, made);
  const Lock lock(lock_of_all());
  if (result == VK_SUCCESS && find(world().devices, device)) world().pools[*made];
  return result;
}

void vkDestroyCommandPool(VkDevice device, VkCommandPool pool, const VkAllocationCallbacks* allocator) {
  Lock lock(lock_of_all());
  must_be_over("vkDestroyCommandPool", device, pool);
  if (const auto found = world().pools.extract(pool)) {
    for (VkCommandBuffer handle : found.mapped()) world().commands.erase(handle);
  }
  lock.unlock();
  next().vkDestroyCommandPool(device, pool, allocator);
}

VkResult vkResetCommandPool(VkDevice device, VkCommandPool pool, VkCommandPoolResetFlags flags) {
  Lock lock(lock_of_all());
  must_be_over("vkResetCommandPool", device, pool);
  if (const auto found = world().pools.find(pool); found != world().pools.end()) {
    for (VkCommandBuffer handle : found->second) forget(world().commands.at(handle));
  }
  lock.unlock();
  return next().vkResetCommandPool(device, pool, flags);
}

VkResult vkAllocateCommandBuffers(VkDevice device, const VkCommandBufferAllocateInfo* info, VkCommandBuffer* made) {
  const VkResult result = next().vkAllocateCommandBuffers(device, info, made);
  const Lock lock(lock_of_all());
  const auto pool = world().pools.find(info->commandPool);
  if (result != VK_SUCCESS || pool == world().pools.end()) return result;
  for (VkCommandBuffer handle : std::span(made, info->commandBufferCount)) {
    world().commands[handle].pool = info->commandPool;
    pool->second.insert(handle);
  }
  return VK_SUCCESS;
}

void vkFreeCommandBuffers(VkDevice device, VkCommandPool pool, std::uint32_t count, const VkCommandBuffer* handles) {
  Lock lock(lock_of_all());
  for (VkCommandBuffer handle : std::span(handles, count)) {
    const auto* commands = find(world().commands, handle);
    if (!commands) continue;
    if (pending(*commands)) {
      violation("vkFreeCommandBuffers", "the commands are not known to be over");
      come_to_rest(*world().devices.at(device));
    }
    world().pools.at(pool).erase(handle);
    world().commands.erase(handle);
  }
  lock.unlock();
  next().vkFreeCommandBuffers(device, pool, count, handles);
}

VkResult vkResetCommandBuffer(VkCommandBuffer handle, VkCommandBufferResetFlags flags) {
  Lock lock(lock_of_all());
  if (auto* commands = find(world().commands, handle)) {
    if (pending(*commands)) violation("vkResetCommandBuffer", "the commands are not known to be over");
    forget(*commands);
  }
  lock.unlock();
  return next().vkResetCommandBuffer(handle, flags);
}

VkResult vkBeginCommandBuffer(VkCommandBuffer handle, const VkCommandBufferBeginInfo* info) {
  Lock lock(lock_of_all());
  if (auto* commands = find(world().commands, handle)) {
    if (pending(*commands)) violation("vkBeginCommandBuffer", "the commands before are not known to be over");
    forget(*commands);
    commands->state = CommandBuffer::State::recording;
    commands->once = (info->flags & VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT) != 0;
  }
  lock.unlock();
  return next().vkBeginCommandBuffer(handle, info);
}

VkResult vkEndCommandBuffer(VkCommandBuffer handle) {
  Lock lock(lock_of_all());
  if (auto* commands = find(world().commands, handle)) {
    if (commands->state != CommandBuffer::State::recording)
      violation("vkEndCommandBuffer", "nothing is being recorded");
    commands->state = CommandBuffer::State::executable;
  }
  lock.unlock();
  return next().vkEndCommandBuffer(handle);
}

void vkCmdPipelineBarrier(VkCommandBuffer handle, VkPipelineStageFlags first, VkPipelineStageFlags second,
                          VkDependencyFlags flags, std::uint32_t count, const VkMemoryBarrier* global,
                          std::uint32_t buffer_count, const VkBufferMemoryBarrier* buffers, std::uint32_t image_count,
                          const VkImageMemoryBarrier* images) {
  Lock lock(lock_of_all());
  constexpr const char* call = "vkCmdPipelineBarrier";
  if (auto* list = recording(handle, call)) {
    Barrier barrier{first_scope(first), second_scope(second), {global, global + count}, {}};
    for (const auto& change : std::span(buffers, buffer_count)) {
      Part part = part_of(change.buffer, change.offset, change.size, false, call);
      if (!part.buffer) continue;
      barrier.buffers.push_back({std::move(part), change.srcAccessMask, change.dstAccessMask,
                                 change.srcQueueFamilyIndex, change.dstQueueFamilyIndex});
    }
    list->push_back(std::move(barrier));
  }
  lock.unlock();
  next().vkCmdPipelineBarrier(handle, first, second, flags, count, global, buffer_count, buffers, image_count, images);
}

void vkCmdCopyBuffer(VkCommandBuffer handle, VkBuffer source, VkBuffer target, std::uint32_t count,
                     const VkBufferCopy* regions) {
  Lock lock(lock_of_all());
  constexpr const char* call = "vkCmdCopyBuffer";
  if (find(world().commands, handle)) {
    std::vector<Part> parts;
    for (const auto& region : std::span(regions, count)) {
      parts.push_back(part_of(source, region.srcOffset, region.size, false, call));
      parts.push_back(part_of(target, region.dstOffset, region.size, true, call));
    }
    record(handle, call, std::move(parts));
  }
  lock.unlock();
  next().vkCmdCopyBuffer(handle, source, target, count, regions);
}

void vkCmdFillBuffer(VkCommandBuffer handle, VkBuffer target, VkDeviceSize offset, VkDeviceSize size,
                     std::uint32_t word) {
  Lock lock(lock_of_all());
  constexpr const char* call = "vkCmdFillBuffer";
  if (find(world().commands, handle)) record(handle, call, {part_of(target, offset, size, true, call)});
  lock.unlock();
  next().vkCmdFillBuffer(handle, target, offset, size, word);
}

void vkCmdUpdateBuffer(VkCommandBuffer handle, VkBuffer target, VkDeviceSize offset, VkDeviceSize size,
                       const void* data) {
  Lock lock(lock_of_all());
  constexpr const char* call = "vkCmdUpdateBuffer";
  if (find(world().commands, handle)) record(handle, call, {part_of(target, offset, size, true, call)});
  lock.unlock();
  next().vkCmdUpdateBuffer(handle, target, offset, size, data);
}

}  // namespace calls
}  // namespace judge
