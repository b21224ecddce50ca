// SPDX-License-Identifier: Apache-2.0
// Memory and buffers: what lies where, who may reach it, and until when it is used.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

#include "world.hpp"

namespace judge {
namespace {

/// What this process exported, by the file behind the descriptor. Drivers on a CPU keep memory in files of its own.
std::map<std::pair<dev_t, ino_t>, std::weak_ptr<Payload>>& exported() {
  static auto& all = *new std::map<std::pair<dev_t, ino_t>, std::weak_ptr<Payload>>;
  return all;
}

bool file_of(int fd, std::pair<dev_t, ino_t>& file) {
  struct stat status;
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return false;
  file = {status.st_dev, status.st_ino};
  return true;
}

template <class Struct>
const Struct* chained(const void* chain, VkStructureType type) {
  for (auto* at = static_cast<const VkBaseInStructure*>(chain); at; at = at->pNext) {
    if (at->sType == type) return reinterpret_cast<const Struct*>(at);
  }
  return nullptr;
}

std::shared_ptr<Payload> payload_of_file(const std::pair<dev_t, ino_t>& file) {
  auto& known = exported()[file];
  auto payload = known.lock();
  if (!payload) {
    payload = std::make_shared<Payload>();
    payload->number = ++world().numbers;
    known = payload;
  }
  std::erase_if(exported(), [](const auto& entry) { return entry.second.expired(); });
  return payload;
}

// Drivers keep the descriptor that they took until the memory ends, or close it at once. Here it is kept, and the
// driver has another one of the file.
VkResult import(VkDevice device, const VkMemoryAllocateInfo& info, const VkImportMemoryFdInfoKHR& importing,
                const VkAllocationCallbacks* allocator, VkDeviceMemory* made) {
  constexpr int above_exports = 400;  // validation remembers those by their numbers, also when they are closed
  const int given = importing.fd;
  const int another = fcntl(given, F_DUPFD_CLOEXEC, above_exports);
  if (another < 0) return VK_ERROR_TOO_MANY_OBJECTS;
  auto& changed = const_cast<VkImportMemoryFdInfoKHR&>(importing);  // which the application made a moment ago
  changed.fd = another;
  const VkResult result = next().vkAllocateMemory(device, &info, allocator, made);
  changed.fd = given;
  std::pair<dev_t, ino_t> ours, left;
  if (result != VK_SUCCESS && file_of(given, ours) && file_of(another, left) && ours == left) close(another);
  return result;
}

void end_taken(const Memory& memory) {
  std::pair<dev_t, ino_t> file;
  const auto found = file_of(memory.taken, file) ? exported().find(file) : exported().end();
  if (found == exported().end() || found->second.lock() != memory.payload) {
    return violation("vkFreeMemory", "the descriptor that memory " + std::to_string(memory.payload->number) +
                                         " was imported from is closed, and it was the driver's");
  }
  close(memory.taken);
}

}  // namespace

bool in_use(const Clock& uses) { return !world().host.over.covers(uses); }

namespace calls {

VkResult vkAllocateMemory(VkDevice device, const VkMemoryAllocateInfo* info, const VkAllocationCallbacks* allocator,
                          VkDeviceMemory* made) {
  const Lock lock(lock_of_all());
  Device* owner = find(world().devices, device);
  if (!owner) return next().vkAllocateMemory(device, info, allocator, made);
  if (settings().allocations != 0 && owner->allocations >= settings().allocations) {
    violation("vkAllocateMemory", std::to_string(owner->allocations) + " are alive, which is the device's limit");
    return VK_ERROR_TOO_MANY_OBJECTS;
  }
  const auto* importing = chained<VkImportMemoryFdInfoKHR>(info->pNext, VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR);
  const auto* exporting =
      chained<VkExportMemoryAllocateInfo>(info->pNext, VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO);
  std::pair<dev_t, ino_t> file;  // looked at before the driver takes the descriptor
  const bool has_file = importing && file_of(importing->fd, file);
  const MemoryType type = memory_type(info->memoryTypeIndex);
  VkMemoryAllocateInfo real = *info;
  real.memoryTypeIndex = type.real;
  const VkResult result = importing ? import(device, real, *importing, allocator, made)
                                    : next().vkAllocateMemory(device, &real, allocator, made);
  if (result != VK_SUCCESS) return result;
  auto memory = std::make_shared<Memory>();
  if (importing) memory->taken = importing->fd;
  memory->handle = *made;
  memory->device = owner;
  memory->size = info->allocationSize;
  memory->external = importing || (exporting && exporting->handleTypes != 0);
  memory->mappable = type.mappable;
  memory->coherent = type.coherent && !settings().noncoherent;
  if (has_file) {
    memory->payload = payload_of_file(file);
  } else {
    memory->payload = std::make_shared<Payload>();
    memory->payload->number = ++world().numbers;
  }
  ++owner->allocations;
  world().memories[*made] = std::move(memory);
  return VK_SUCCESS;
}

void vkFreeMemory(VkDevice device, VkDeviceMemory handle, const VkAllocationCallbacks* allocator) {
  const Lock lock(lock_of_all());
  if (auto* memory = find(world().memories, handle)) {
    if (in_use(memory->uses)) {
      violation("vkFreeMemory",
                "memory " + std::to_string(memory->payload->number) + " is freed before its work is known to be over");
      come_to_rest(*memory->device);
    }
    --memory->device->allocations;
    if (memory->taken >= 0) end_taken(*memory);
    world().memories.erase(handle);
  }
  next().vkFreeMemory(device, handle, allocator);
}

VkResult vkGetMemoryFdKHR(VkDevice device, const VkMemoryGetFdInfoKHR* info, int* fd) {
  const Lock lock(lock_of_all());
  const Device* owner = find(world().devices, device);
  if (!owner) return next().vkGetMemoryFdKHR(device, info, fd);
  const VkResult result = owner->get_fd(device, info, fd);
  std::pair<dev_t, ino_t> file;
  auto* memory = find(world().memories, info->memory);
  if (result == VK_SUCCESS && memory && file_of(*fd, file)) exported()[file] = memory->payload;
  return result;
}

VkResult vkCreateBuffer(VkDevice device, const VkBufferCreateInfo* info, const VkAllocationCallbacks* allocator,
                        VkBuffer* made) {
  const Lock lock(lock_of_all());
  const VkResult result = next().vkCreateBuffer(device, info, allocator, made);
  if (result != VK_SUCCESS || !find(world().devices, device)) return result;
  auto buffer = std::make_shared<Buffer>();
  buffer->handle = *made;
  buffer->number = ++world().numbers;
  buffer->size = info->size;
  world().buffers[*made] = std::move(buffer);
  return VK_SUCCESS;
}

void vkDestroyBuffer(VkDevice device, VkBuffer handle, const VkAllocationCallbacks* allocator) {
  const Lock lock(lock_of_all());
  if (auto* buffer = find(world().buffers, handle)) {
    if (in_use(buffer->uses)) {
      violation("vkDestroyBuffer",
                "buffer " + std::to_string(buffer->number) + " is destroyed before its work is known to be over");
      come_to_rest(*world().devices.at(device));
    }
    world().buffers.erase(handle);
  }
  next().vkDestroyBuffer(device, handle, allocator);
}

void vkGetBufferMemoryRequirements(VkDevice device, VkBuffer buffer, VkMemoryRequirements* requirements) {
  next().vkGetBufferMemoryRequirements(device, buffer, requirements);
  const Lock lock(lock_of_all());
  if (find(world().devices, device)) requirements->memoryTypeBits = reported_types(requirements->memoryTypeBits);
}

void vkGetBufferMemoryRequirements2(VkDevice device, const VkBufferMemoryRequirementsInfo2* info,
                                    VkMemoryRequirements2* requirements) {
  next().vkGetBufferMemoryRequirements2(device, info, requirements);
  const Lock lock(lock_of_all());
  auto& bits = requirements->memoryRequirements.memoryTypeBits;
  if (find(world().devices, device)) bits = reported_types(bits);
}

VkResult vkBindBufferMemory(VkDevice device, VkBuffer buffer, VkDeviceMemory memory, VkDeviceSize offset) {
  const Lock lock(lock_of_all());
  const VkResult result = next().vkBindBufferMemory(device, buffer, memory, offset);
  auto* bound = find(world().buffers, buffer);
  if (result == VK_SUCCESS && bound && find(world().memories, memory)) {
    bound->memory = world().memories.at(memory);
    bound->offset = offset;
  }
  return result;
}

}  // namespace calls
}  // namespace judge
