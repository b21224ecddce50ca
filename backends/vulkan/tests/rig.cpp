// SPDX-License-Identifier: Apache-2.0
#include "rig.hpp"

#include <gtest/gtest.h>

#include "judged_vulkan.hpp"
#include "making.hpp"
#include "vulkan/tests/interpose.hpp"

namespace weir::vulkan::test {
namespace {

void succeeds(VkResult result) { EXPECT_EQ(result, VK_SUCCESS); }

}  // namespace

std::unique_ptr<Rig> Rig::create(std::string& reason, std::uint32_t queues) {
  reason = "there is no judge, or no Vulkan";
  const auto get = interpose::next_loader("WEIR_VULKAN_LIBRARY");
  if (!get || weir::test::judged_vulkan().empty()) return nullptr;
  std::unique_ptr<Rig> rig(new Rig);
  rig->instance_ = make_instance(get);
  if (!rig->instance_ || rig->instance_fn_.load(get, rig->instance_, false)) return nullptr;
  rig->physical_ = first_device(get, rig->instance_);
  if (!rig->physical_) return nullptr;
  VkPhysicalDeviceProperties properties;
  rig->instance_fn_.vkGetPhysicalDeviceProperties(rig->physical_, &properties);
  reason = "the first device is a GPU, which is not judged";
  if (properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU) return nullptr;
  rig->device = make_device(get, rig->instance_, rig->physical_, queues);
  if (!rig->device) {
    reason = "vkCreateDevice failed";
    ADD_FAILURE() << reason;
    return nullptr;
  }
  EXPECT_EQ(rig->fn.load(rig->instance_fn_.vkGetDeviceProcAddr, rig->device), nullptr);
  rig->queues.resize(queues);
  for (std::uint32_t i = 0; i < queues; ++i) rig->fn.vkGetDeviceQueue(rig->device, 0, i, &rig->queues[i]);
  return rig;
}

Rig::~Rig() {
  if (!device) return;
  for (VkQueue queue : queues) succeeds(fn.vkQueueWaitIdle(queue));
  for (VkCommandPool pool : pools) fn.vkDestroyCommandPool(device, pool, nullptr);
  for (VkBuffer buffer : buffers_) fn.vkDestroyBuffer(device, buffer, nullptr);
  for (VkDeviceMemory memory : memories_) fn.vkFreeMemory(device, memory, nullptr);
  for (VkSemaphore semaphore : semaphores_) fn.vkDestroySemaphore(device, semaphore, nullptr);
  fn.vkDestroyDevice(device, nullptr);  // the instance stays, as weir's own does
}

void Rig::destroy(VkBuffer buffer) {
  fn.vkDestroyBuffer(device, buffer, nullptr);
  std::erase(buffers_, buffer);
}
void Rig::destroy(VkDeviceMemory memory) {
  fn.vkFreeMemory(device, memory, nullptr);
  std::erase(memories_, memory);
}
void Rig::destroy(VkSemaphore semaphore) {
  fn.vkDestroySemaphore(device, semaphore, nullptr);
  std::erase(semaphores_, semaphore);
}
void Rig::destroy(VkCommandPool pool) {
  fn.vkDestroyCommandPool(device, pool, nullptr);
  std::erase(pools, pool);
}

VkBuffer Rig::buffer_in(VkDeviceMemory memory, VkDeviceSize offset, VkDeviceSize size, bool external) {
  VkExternalMemoryBufferCreateInfo handles{};
  handles.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO;
  handles.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.pNext = external ? &handles : nullptr;
  info.size = size;
  info.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  VkBuffer buffer = VK_NULL_HANDLE;
  succeeds(fn.vkCreateBuffer(device, &info, nullptr, &buffer));
  succeeds(fn.vkBindBufferMemory(device, buffer, memory, offset));
  buffers_.push_back(buffer);
  return buffer;
}

std::uint32_t Rig::type_with(VkMemoryPropertyFlags wanted) const {
  VkPhysicalDeviceMemoryProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
  instance_fn_.vkGetPhysicalDeviceMemoryProperties2(physical_, &properties);
  const auto& types = properties.memoryProperties;
  std::uint32_t type = 0;
  while (type < types.memoryTypeCount && (types.memoryTypes[type].propertyFlags & wanted) != wanted) ++type;
  EXPECT_LT(type, types.memoryTypeCount);
  return type;
}

Rig::Memory Rig::memory(Sort sort, int import_fd) {
  VkExportMemoryAllocateInfo exporting{};
  exporting.sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO;
  exporting.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  VkImportMemoryFdInfoKHR importing{};
  importing.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR;
  importing.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  importing.fd = import_fd;
  VkMemoryAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  if (sort == Sort::external) info.pNext = &exporting;
  if (import_fd >= 0) info.pNext = &importing;
  info.allocationSize = 2 * bytes;
  info.memoryTypeIndex =
      type_with(sort == Sort::mapped ? VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
                                     : VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
  Memory made;
  succeeds(fn.vkAllocateMemory(device, &info, nullptr, &made.memory));
  memories_.push_back(made.memory);
  made.buffer = buffer_in(made.memory, 0, bytes, sort == Sort::external);
  if (sort == Sort::mapped) {
    void* mapped = nullptr;
    succeeds(fn.vkMapMemory(device, made.memory, 0, VK_WHOLE_SIZE, 0, &mapped));
    made.host = static_cast<std::byte*>(mapped);
  }
  return made;
}

int Rig::export_fd(const Memory& memory) const {
  VkMemoryGetFdInfoKHR info{};
  info.sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR;
  info.memory = memory.memory;
  info.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  int fd = -1;
  succeeds(fn.vkGetMemoryFdKHR(device, &info, &fd));
  return fd;
}

VkSemaphore Rig::timeline() {
  semaphores_.push_back(make_timeline(device, fn.vkCreateSemaphore));
  return semaphores_.back();
}

void Rig::wait(VkSemaphore semaphore, std::uint64_t value) const {
  VkSemaphoreWaitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
  info.semaphoreCount = 1;
  info.pSemaphores = &semaphore;
  info.pValues = &value;
  succeeds(fn.vkWaitSemaphores(device, &info, ~std::uint64_t{0}));
}

std::uint64_t Rig::value(VkSemaphore semaphore) const {
  std::uint64_t reached = 0;
  succeeds(fn.vkGetSemaphoreCounterValue(device, semaphore, &reached));
  return reached;
}

RigBatch::RigBatch(Rig& rig) : rig_(rig) {
  VkCommandPoolCreateInfo pool_info{};
  pool_info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  succeeds(rig.fn.vkCreateCommandPool(rig.device, &pool_info, nullptr, &pool));
  rig.pools.push_back(pool);
  VkCommandBufferAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  info.commandPool = pool;
  info.commandBufferCount = 1;
  succeeds(rig.fn.vkAllocateCommandBuffers(rig.device, &info, &commands));
  VkCommandBufferBeginInfo begin{};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  succeeds(rig.fn.vkBeginCommandBuffer(commands, &begin));
}

RigBatch& RigBatch::fill(VkBuffer buffer, std::uint32_t word, VkDeviceSize offset, VkDeviceSize size) {
  rig_.fn.vkCmdFillBuffer(commands, buffer, offset, size, word);
  return *this;
}

RigBatch& RigBatch::copy(VkBuffer from, VkBuffer to, VkDeviceSize source, VkDeviceSize target, VkDeviceSize size) {
  const VkBufferCopy region{source, target, size};
  rig_.fn.vkCmdCopyBuffer(commands, from, to, 1, &region);
  return *this;
}

RigBatch& RigBatch::barrier(VkPipelineStageFlags from, VkAccessFlags made, VkPipelineStageFlags to,
                            VkAccessFlags shown) {
  const VkMemoryBarrier memory{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, made, shown};
  rig_.fn.vkCmdPipelineBarrier(commands, from, to, 0, 1, &memory, 0, nullptr, 0, nullptr);
  return *this;
}

RigBatch& RigBatch::execution(VkPipelineStageFlags from, VkPipelineStageFlags to) {
  rig_.fn.vkCmdPipelineBarrier(commands, from, to, 0, 0, nullptr, 0, nullptr, 0, nullptr);
  return *this;
}

void RigBatch::change(VkBuffer buffer, VkAccessFlags made, VkAccessFlags shown, std::uint32_t from, std::uint32_t to) {
  VkBufferMemoryBarrier info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER;
  info.srcAccessMask = made;
  info.dstAccessMask = shown;
  info.srcQueueFamilyIndex = from;
  info.dstQueueFamilyIndex = to;
  info.buffer = buffer;
  info.size = VK_WHOLE_SIZE;
  rig_.fn.vkCmdPipelineBarrier(commands, all, all, 0, 0, nullptr, 1, &info, 0, nullptr);
}

RigBatch& RigBatch::barrier_for(VkBuffer buffer, VkAccessFlags made, VkAccessFlags shown) {
  change(buffer, made, shown, VK_QUEUE_FAMILY_IGNORED, VK_QUEUE_FAMILY_IGNORED);
  return *this;
}

RigBatch& RigBatch::acquire(VkBuffer buffer, VkAccessFlags shown, std::uint32_t family) {
  change(buffer, 0, shown, VK_QUEUE_FAMILY_EXTERNAL, family);
  return *this;
}

RigBatch& RigBatch::release(VkBuffer buffer, VkAccessFlags made) {
  change(buffer, made, 0, 0, VK_QUEUE_FAMILY_EXTERNAL);
  return *this;
}

RigBatch& RigBatch::to_host(VkAccessFlags shown) { return barrier(transfer, write, VK_PIPELINE_STAGE_HOST_BIT, shown); }

RigBatch& RigBatch::wait(VkSemaphore semaphore, std::uint64_t value, VkPipelineStageFlags stages) {
  waits_.push_back(semaphore);
  wait_values_.push_back(value);
  stages_.push_back(stages);
  return *this;
}

RigBatch& RigBatch::signal(VkSemaphore semaphore, std::uint64_t value) {
  signals_.push_back(semaphore);
  signal_values_.push_back(value);
  return *this;
}

RigBatch& RigBatch::submit(std::size_t queue) {
  succeeds(rig_.fn.vkEndCommandBuffer(commands));
  return again(queue);
}

RigBatch& RigBatch::again(std::size_t queue) {
  VkTimelineSemaphoreSubmitInfo values{};
  values.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
  values.waitSemaphoreValueCount = static_cast<std::uint32_t>(wait_values_.size());
  values.pWaitSemaphoreValues = wait_values_.data();
  values.signalSemaphoreValueCount = static_cast<std::uint32_t>(signal_values_.size());
  values.pSignalSemaphoreValues = signal_values_.data();
  VkSubmitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.pNext = &values;
  info.waitSemaphoreCount = static_cast<std::uint32_t>(waits_.size());
  info.pWaitSemaphores = waits_.data();
  info.pWaitDstStageMask = stages_.data();
  info.commandBufferCount = 1;
  info.pCommandBuffers = &commands;
  info.signalSemaphoreCount = static_cast<std::uint32_t>(signals_.size());
  info.pSignalSemaphores = signals_.data();
  succeeds(rig_.fn.vkQueueSubmit(rig_.queues[queue], 1, &info, VK_NULL_HANDLE));
  return *this;
}

}  // namespace weir::vulkan::test
