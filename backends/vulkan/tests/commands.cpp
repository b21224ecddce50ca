// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"

#include <gtest/gtest.h>

#include <array>

#include "making.hpp"
#include "vulkan/device.hpp"

namespace weir::vulkan::test {
namespace {

constexpr std::uint32_t squares[] = {
#include "09_compute.inc"
};

void succeeds(VkResult result) { EXPECT_EQ(result, VK_SUCCESS); }

}  // namespace

#define CALL(name) function<PFN_##name>(#name)

Commands::Commands(const Stream& stream) : of_(stream.device()) {
  const NativeStream handles = native(stream);
  device_ = handles.device;
  family_ = handles.family;
  get_ = static_cast<const PhysicalDevice&>(stream.device().state()).instance.fn.vkGetDeviceProcAddr;
  VkCommandPoolCreateInfo pool{};
  pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool.queueFamilyIndex = family_;
  succeeds(CALL(vkCreateCommandPool)(device_, &pool, nullptr, &pool_));
  VkCommandBufferAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  info.commandPool = pool_;
  info.commandBufferCount = 1;
  succeeds(CALL(vkAllocateCommandBuffers)(device_, &info, &commands_));
  VkCommandBufferBeginInfo begin{};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  succeeds(CALL(vkBeginCommandBuffer)(commands_, &begin));
}

Commands::~Commands() { CALL(vkDestroyCommandPool)(device_, pool_, nullptr); }

Commands& Commands::fill(const Buffer& buffer, std::uint32_t word) {
  const auto at = native(buffer, of_);
  CALL(vkCmdFillBuffer)(commands_, at.buffer, at.offset, at.size, word);
  return *this;
}

Commands& Commands::copy(const Buffer& from, const Buffer& to) {
  const auto source = native(from, of_), target = native(to, of_);
  const VkBufferCopy region{source.offset, target.offset, source.size};
  CALL(vkCmdCopyBuffer)(commands_, source.buffer, target.buffer, 1, &region);
  return *this;
}

Commands& Commands::barrier() {
  const VkMemoryBarrier memory{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_TRANSFER_WRITE_BIT,
                               VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT};
  CALL(vkCmdPipelineBarrier)
  (commands_, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &memory, 0, nullptr, 0, nullptr);
  return *this;
}

void Commands::change_owner(const Buffer& buffer, bool acquire) {
  VkBufferMemoryBarrier change{};
  change.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER;
  change.srcAccessMask = acquire ? 0 : VK_ACCESS_MEMORY_WRITE_BIT;
  change.dstAccessMask = acquire ? VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT : 0;
  change.srcQueueFamilyIndex = acquire ? VK_QUEUE_FAMILY_EXTERNAL : family_;
  change.dstQueueFamilyIndex = acquire ? family_ : VK_QUEUE_FAMILY_EXTERNAL;
  change.buffer = native(buffer, of_).buffer;
  change.size = VK_WHOLE_SIZE;
  CALL(vkCmdPipelineBarrier)
  (commands_, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 0, nullptr, 1, &change, 0,
   nullptr);
}

Commands& Commands::acquire(const Buffer& buffer) {
  change_owner(buffer, true);
  return *this;
}

Commands& Commands::release(const Buffer& buffer) {
  change_owner(buffer, false);
  return *this;
}

VkCommandBuffer_T* Commands::done() {
  if (!ended_) succeeds(CALL(vkEndCommandBuffer)(commands_));
  ended_ = true;
  return commands_;
}

void Commands::submit(VkQueue queue, const NativeStream& after, VkSemaphore semaphore, std::uint64_t value) {
  VkCommandBuffer commands = done();
  VkTimelineSemaphoreSubmitInfo values{};
  values.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
  values.waitSemaphoreValueCount = values.signalSemaphoreValueCount = 1;
  values.pWaitSemaphoreValues = &after.value;
  values.pSignalSemaphoreValues = &value;
  const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
  VkSubmitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.pNext = &values;
  info.waitSemaphoreCount = info.signalSemaphoreCount = info.commandBufferCount = 1;
  info.pWaitSemaphores = &after.semaphore;
  info.pWaitDstStageMask = &stage;
  info.pSignalSemaphores = &semaphore;
  info.pCommandBuffers = &commands;
  succeeds(CALL(vkQueueSubmit)(queue, 1, &info, VK_NULL_HANDLE));
}

VkSemaphore Commands::make_timeline() const {
  return test::make_timeline(device_, CALL(vkCreateSemaphore));
}

void Commands::destroy(VkSemaphore semaphore) const { CALL(vkDestroySemaphore)(device_, semaphore, nullptr); }

#undef CALL
#define CALL(name) commands_.function<PFN_##name>(#name)

Squares::Squares(Commands& commands, const Buffer& source, const Buffer& target) : commands_(commands) {
  const VkDevice device = commands.device();
  VkShaderModuleCreateInfo code{};
  code.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  code.codeSize = sizeof squares;
  code.pCode = squares;
  succeeds(CALL(vkCreateShaderModule)(device, &code, nullptr, &module_));

  constexpr auto storage = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
  const std::array<VkDescriptorSetLayoutBinding, 2> bindings{
      {{0, storage, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr}, {1, storage, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr}}};
  VkDescriptorSetLayoutCreateInfo sets{};
  sets.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
  sets.bindingCount = static_cast<std::uint32_t>(bindings.size());
  sets.pBindings = bindings.data();
  succeeds(CALL(vkCreateDescriptorSetLayout)(device, &sets, nullptr, &set_layout_));
  VkPipelineLayoutCreateInfo layout{};
  layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  layout.setLayoutCount = 1;
  layout.pSetLayouts = &set_layout_;
  succeeds(CALL(vkCreatePipelineLayout)(device, &layout, nullptr, &layout_));
  VkComputePipelineCreateInfo pipeline{};
  pipeline.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  pipeline.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  pipeline.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  pipeline.stage.module = module_;
  pipeline.stage.pName = "main";
  pipeline.layout = layout_;
  succeeds(CALL(vkCreateComputePipelines)(device, VK_NULL_HANDLE, 1, &pipeline, nullptr, &pipeline_));

  const VkDescriptorPoolSize size{storage, 2};
  VkDescriptorPoolCreateInfo pool{};
  pool.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
  pool.maxSets = 1;
  pool.poolSizeCount = 1;
  pool.pPoolSizes = &size;
  succeeds(CALL(vkCreateDescriptorPool)(device, &pool, nullptr, &pool_));
  VkDescriptorSetAllocateInfo allocate{};
  allocate.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
  allocate.descriptorPool = pool_;
  allocate.descriptorSetCount = 1;
  allocate.pSetLayouts = &set_layout_;
  VkDescriptorSet set = VK_NULL_HANDLE;
  succeeds(CALL(vkAllocateDescriptorSets)(device, &allocate, &set));
  const auto from = native(source), to = native(target);
  const std::array<VkDescriptorBufferInfo, 2> buffers{
      {{from.buffer, from.offset, from.size}, {to.buffer, to.offset, to.size}}};
  VkWriteDescriptorSet write{};
  write.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
  write.dstSet = set;
  write.descriptorCount = static_cast<std::uint32_t>(buffers.size());  // goes on into the second binding
  write.descriptorType = storage;
  write.pBufferInfo = buffers.data();
  CALL(vkUpdateDescriptorSets)(device, 1, &write, 0, nullptr);
  CALL(vkCmdBindPipeline)(commands.handle(), VK_PIPELINE_BIND_POINT_COMPUTE, pipeline_);
  CALL(vkCmdBindDescriptorSets)
  (commands.handle(), VK_PIPELINE_BIND_POINT_COMPUTE, layout_, 0, 1, &set, 0, nullptr);
}

Squares::~Squares() {
  const VkDevice device = commands_.device();
  CALL(vkDestroyDescriptorPool)(device, pool_, nullptr);
  CALL(vkDestroyPipeline)(device, pipeline_, nullptr);
  CALL(vkDestroyPipelineLayout)(device, layout_, nullptr);
  CALL(vkDestroyDescriptorSetLayout)(device, set_layout_, nullptr);
  CALL(vkDestroyShaderModule)(device, module_, nullptr);
}

void Squares::dispatch(std::uint32_t groups) { CALL(vkCmdDispatch)(commands_.handle(), groups, 1, 1); }

void Squares::dispatch_indirect(const Buffer& groups) {
  const auto at = native(groups);
  CALL(vkCmdDispatchIndirect)(commands_.handle(), at.buffer, at.offset);
}

}  // namespace weir::vulkan::test
