// SPDX-License-Identifier: Apache-2.0
// A compute shader reads one Buffer and writes another, in its place on a stream.
#include <dlfcn.h>
#include <vulkan/vulkan.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "weir/vulkan.hpp"
#include "weir/weir.hpp"

namespace {

// #version 450
// layout(local_size_x = 64) in;
// layout(set = 0, binding = 0) readonly buffer Source { uint source[]; };
// layout(set = 0, binding = 1) writeonly buffer Target { uint target[]; };
// void main() {
//   uint i = gl_GlobalInvocationID.x;
//   if (i < target.length()) target[i] = source[i] * source[i] + 1;
// }
constexpr std::uint32_t shader[] = {
#include "09_compute.inc"
};
constexpr std::uint32_t count = 1000, group = 64;

/// The application's part: a pipeline and a command buffer, as in any Vulkan program, on the device of a stream of
/// weir's. The commands need no barriers and no semaphores.
class Squares {
 public:
  Squares(const weir::Stream& stream, const weir::Buffer& source, const weir::Buffer& target);
  Squares(const Squares&) = delete;
  Squares& operator=(const Squares&) = delete;
  ~Squares();
  [[nodiscard]] VkCommandBuffer commands() const { return commands_; }

 private:
  template <class F>
  F function(const char* name) const {
    return reinterpret_cast<F>(get_(device_, name));
  }
  void make_pipeline();
  VkDescriptorSet describe(const weir::Buffer& source, const weir::Buffer& target);

  VkDevice device_;
  PFN_vkGetDeviceProcAddr get_;
  VkShaderModule module_ = VK_NULL_HANDLE;
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipeline pipeline_ = VK_NULL_HANDLE;
  VkDescriptorPool descriptors_ = VK_NULL_HANDLE;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
};

#define CALL(name) function<PFN_##name>(#name)

void check(VkResult result) {
  if (result != VK_SUCCESS) throw std::runtime_error("Vulkan refused with " + std::to_string(result));
}

Squares::Squares(const weir::Stream& stream, const weir::Buffer& source, const weir::Buffer& target) {
  const weir::vulkan::NativeStream handles = weir::vulkan::native(stream);
  device_ = handles.device;
  void* const library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);  // weir has loaded it already
  get_ = reinterpret_cast<PFN_vkGetDeviceProcAddr>(dlsym(library, "vkGetDeviceProcAddr"));
  make_pipeline();
  const VkDescriptorSet set = describe(source, target);

  const VkCommandPoolCreateInfo of_pool{.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                        .queueFamilyIndex = handles.family};
  check(CALL(vkCreateCommandPool)(device_, &of_pool, nullptr, &pool_));
  const VkCommandBufferAllocateInfo one{
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = pool_, .commandBufferCount = 1};
  check(CALL(vkAllocateCommandBuffers)(device_, &one, &commands_));
  const VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  check(CALL(vkBeginCommandBuffer)(commands_, &begin));
  CALL(vkCmdBindPipeline)(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline_);
  CALL(vkCmdBindDescriptorSets)(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, layout_, 0, 1, &set, 0, nullptr);
  CALL(vkCmdDispatch)(commands_, (count + group - 1) / group, 1, 1);
  check(CALL(vkEndCommandBuffer)(commands_));
}

void Squares::make_pipeline() {
  const VkShaderModuleCreateInfo code{
      .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = sizeof shader, .pCode = shader};
  check(CALL(vkCreateShaderModule)(device_, &code, nullptr, &module_));
  std::array<VkDescriptorSetLayoutBinding, 2> bindings{};
  for (std::uint32_t i = 0; i < bindings.size(); ++i)
    bindings[i] = {i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
  const VkDescriptorSetLayoutCreateInfo of_set{.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                               .bindingCount = bindings.size(),
                                               .pBindings = bindings.data()};
  check(CALL(vkCreateDescriptorSetLayout)(device_, &of_set, nullptr, &set_layout_));
  const VkPipelineLayoutCreateInfo of_layout{
      .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, .setLayoutCount = 1, .pSetLayouts = &set_layout_};
  check(CALL(vkCreatePipelineLayout)(device_, &of_layout, nullptr, &layout_));
  const VkComputePipelineCreateInfo of_pipeline{.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                                .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                          .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                          .module = module_,
                                                          .pName = "main"},
                                                .layout = layout_};
  check(CALL(vkCreateComputePipelines)(device_, VK_NULL_HANDLE, 1, &of_pipeline, nullptr, &pipeline_));
}

// A Buffer is a range of a VkBuffer: weir::vulkan::native says which.
VkDescriptorSet Squares::describe(const weir::Buffer& source, const weir::Buffer& target) {
  const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 2};
  const VkDescriptorPoolCreateInfo of_pool{
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .maxSets = 1, .poolSizeCount = 1, .pPoolSizes = &size};
  check(CALL(vkCreateDescriptorPool)(device_, &of_pool, nullptr, &descriptors_));
  const VkDescriptorSetAllocateInfo one{.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                        .descriptorPool = descriptors_,
                                        .descriptorSetCount = 1,
                                        .pSetLayouts = &set_layout_};
  VkDescriptorSet set = VK_NULL_HANDLE;
  check(CALL(vkAllocateDescriptorSets)(device_, &one, &set));
  const auto range = [](const weir::Buffer& buffer) {
    const weir::vulkan::NativeBuffer at = weir::vulkan::native(buffer);
    return VkDescriptorBufferInfo{at.buffer, at.offset, at.size};
  };
  const std::array ranges{range(source), range(target)};
  const VkWriteDescriptorSet write{.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                   .dstSet = set,
                                   .descriptorCount = ranges.size(),
                                   .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                   .pBufferInfo = ranges.data()};
  CALL(vkUpdateDescriptorSets)(device_, 1, &write, 0, nullptr);
  return set;
}

Squares::~Squares() {
  CALL(vkDestroyCommandPool)(device_, pool_, nullptr);
  CALL(vkDestroyDescriptorPool)(device_, descriptors_, nullptr);
  CALL(vkDestroyPipeline)(device_, pipeline_, nullptr);
  CALL(vkDestroyPipelineLayout)(device_, layout_, nullptr);
  CALL(vkDestroyDescriptorSetLayout)(device_, set_layout_, nullptr);
  CALL(vkDestroyShaderModule)(device_, module_, nullptr);
}

std::vector<std::uint32_t> numbers() {
  std::vector<std::uint32_t> all(count);
  for (std::uint32_t i = 0; i < count; ++i) all[i] = i;
  return all;
}

std::vector<std::uint32_t> on_vulkan() {
  const weir::Stream stream{weir::vulkan::device(0)};
  const weir::PoolPtr pool = weir::make_pool(weir::vulkan::make_device_resource(stream.device()));
  weir::Buffer source = pool->allocate(count * sizeof(std::uint32_t), stream);
  weir::Buffer target = pool->allocate(source.size(), stream);
  const std::vector<std::uint32_t> input = numbers();
  source.copy_from(std::as_bytes(std::span(input)), stream);
  const Squares squares(stream, source, target);
  weir::vulkan::submit(stream, {squares.commands()}, {source, target});  // after the copy; returns at once
  std::vector<std::uint32_t> result(count);
  target.copy_to(std::as_writable_bytes(std::span(result)), stream);  // after the shader
  stream.synchronize();
  return result;
}

/// The same without a device: a host function, in its place on a stream of the host.
std::vector<std::uint32_t> on_the_host() {
  const weir::Stream stream{weir::host_device()};
  const weir::PoolPtr pool = weir::make_pool(stream.device());
  weir::Buffer source = pool->allocate(count * sizeof(std::uint32_t), stream);
  weir::Buffer target = pool->allocate(source.size(), stream);
  const std::vector<std::uint32_t> input = numbers();
  source.copy_from(std::as_bytes(std::span(input)), stream);
  stream.call([from = source.host_data(), to = target.host_data()] {
    for (std::size_t at = 0; at < count * sizeof(std::uint32_t); at += sizeof(std::uint32_t)) {
      std::uint32_t number = 0;
      std::memcpy(&number, from + at, sizeof number);
      number = number * number + 1;
      std::memcpy(to + at, &number, sizeof number);
    }
  });
  std::vector<std::uint32_t> result(count);
  target.copy_to(std::as_writable_bytes(std::span(result)), stream);
  stream.synchronize();
  return result;
}

}  // namespace

int main() {
  std::vector<std::uint32_t> result;
  for (const weir::BackendInfo& backend : weir::backends()) {
    if (backend.name != "vulkan") continue;
    if (backend.devices.empty())
      std::printf("There is no Vulkan device (%s), so the host computes.\n", backend.unavailable_because.c_str());
    result = backend.devices.empty() ? on_the_host() : on_vulkan();
  }
  if (result.size() != count) return 1;
  for (std::uint32_t i = 0; i < count; ++i)
    if (result[i] != i * i + 1) return 1;
  std::printf("the squares of 0 to %u, plus one: %u, %u, %u … %u\n", count - 1, result[0], result[1], result[2],
              result[count - 1]);
  return 0;
}
