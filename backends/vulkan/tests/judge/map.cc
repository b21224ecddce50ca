// SPDX-License-Identifier: Apache-2.0
// Mapping memory, and carrying bytes over where it is not coherent.
#include <algorithm>
#include <new>

#include "mapping.hpp"

namespace judge {
namespace calls {

VkResult vkMapMemory(VkDevice device, VkDeviceMemory handle, VkDeviceSize offset, VkDeviceSize size,
                     VkMemoryMapFlags flags, void** mapped) {
  const Lock lock(lock_of_all());
  auto* memory = find(world().memories, handle);
  if (memory && !memory->mappable) {
    violation("vkMapMemory", "the memory type is not host-visible");
    return VK_ERROR_MEMORY_MAP_FAILED;
  }
  if (memory && memory->mapping) violation("vkMapMemory", "it is mapped already");
  const VkResult result = next().vkMapMemory(device, handle, offset, size, flags, mapped);
  // What others reach, too, has more than two sides.
  if (!memory || memory->external || result != VK_SUCCESS) return result;
  if (offset != 0 || size != VK_WHOLE_SIZE) {
    violation("vkMapMemory", "the judge knows mappings of whole memories only");
    return result;
  }
  try {
    memory->mapping = std::make_shared<Mapping>(static_cast<std::byte*>(*mapped), memory->size);
  } catch (const std::bad_alloc&) {
    next().vkUnmapMemory(device, handle);
    return VK_ERROR_OUT_OF_HOST_MEMORY;
  }
  *mapped = memory->mapping->host;
  return result;
}

void vkUnmapMemory(VkDevice device, VkDeviceMemory handle) {
  const Lock lock(lock_of_all());
  if (auto* memory = find(world().memories, handle); memory && memory->mapping) {
    host_to_device(*memory, 0, memory->size, "vkUnmapMemory");
    memory->mapping.reset();
  }
  next().vkUnmapMemory(device, handle);
}

}  // namespace calls

namespace {

/// The memory and its bytes; null when they are not judged.
Memory* range_of(const VkMappedMemoryRange& range, Bytes& end, const char* call) {
  auto* memory = find(world().memories, range.memory);
  if (!memory || memory->external) return nullptr;
  if (!memory->mapping) {
    violation(call, "the memory is not mapped");
    return nullptr;
  }
  end = range.size == VK_WHOLE_SIZE ? memory->size : range.offset + range.size;
  if (range.offset % atom != 0 || (end % atom != 0 && end != memory->size) || end > memory->size || range.size == 0) {
    violation(call, bytes(range.offset, end, *memory) + ", which has " + std::to_string(memory->size) +
                        ", are not whole atoms of " + std::to_string(atom));
    end = std::min(end, memory->size);
  }
  return memory;
}

}  // namespace

namespace calls {

VkResult vkFlushMappedMemoryRanges(VkDevice device, std::uint32_t count, const VkMappedMemoryRange* ranges) {
  const Lock lock(lock_of_all());
  for (std::uint32_t i = 0; i < count; ++i) {
    Bytes end = 0;
    auto* memory = range_of(ranges[i], end, "vkFlushMappedMemoryRanges");
    if (memory && !memory->coherent) flush(*memory, ranges[i].offset, end);
  }
  return next().vkFlushMappedMemoryRanges(device, count, ranges);
}

VkResult vkInvalidateMappedMemoryRanges(VkDevice device, std::uint32_t count, const VkMappedMemoryRange* ranges) {
  const Lock lock(lock_of_all());
  const VkResult result = next().vkInvalidateMappedMemoryRanges(device, count, ranges);
  for (std::uint32_t i = 0; i < count && result == VK_SUCCESS; ++i) {
    Bytes end = 0;
    auto* memory = range_of(ranges[i], end, "vkInvalidateMappedMemoryRanges");
    if (memory && !memory->coherent) invalidate(*memory, ranges[i].offset, end);
  }
  return result;
}

}  // namespace calls
}  // namespace judge
