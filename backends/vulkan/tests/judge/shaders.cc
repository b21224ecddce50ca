// SPDX-License-Identifier: Apache-2.0
// The shader that copies rows: what a dispatch of it touches follows from the numbers that it is told and from the unit
// that its code names. Dispatches of other shaders are not judged.
#include <cstring>
#include <span>

#include "world.hpp"

namespace judge {
namespace {

/// The push constants of copy_rows.comp.
struct Numbers {
  VkDeviceAddress target, source;
  std::uint32_t all, row, inner, middle;
  std::int32_t target_inner, target_middle, target_outer;
  std::int32_t source_first, source_inner, source_middle, source_outer;
};

constexpr std::uint32_t op_decorate = 71, array_stride = 6;

/// The bytes between two elements of the arrays that the shader uses; 0 when there are none, or of several sizes.
Bytes stride_of(std::span<const std::uint32_t> code) {
  constexpr std::size_t header = 5;
  Bytes stride = 0;
  for (std::size_t at = header; at < code.size();) {
    const std::uint32_t words = code[at] >> 16, op = code[at] & 0xffff;
    if (words == 0) return 0;
    if (op == op_decorate && words == 4 && code[at + 2] == array_stride) {
      if (stride != 0 && stride != code[at + 3]) return 0;
      stride = code[at + 3];
    }
    at += words;
  }
  return stride;
}

std::shared_ptr<Buffer> buffer_at(VkDeviceAddress address) {
  for (const auto& [handle, buffer] : world().buffers) {
    if (buffer->memory && buffer->address != 0 && buffer->address <= address &&
        address < buffer->address + buffer->size)
      return buffer;
  }
  return nullptr;
}

/// One side's rows.
class Side {
 public:
  Side(VkDeviceAddress first, bool write, Bytes unit)
      : buffer_(buffer_at(first)), first_(first), unit_(unit), write_(write) {
    if (!buffer_) violation("vkCmdDispatch", "no buffer has the address that it is told");
  }
  void add(std::vector<Part>& parts, std::int64_t units, std::uint32_t row) const {
    if (!buffer_) return;
    const auto begin = static_cast<std::int64_t>(first_ - buffer_->address) + units * static_cast<std::int64_t>(unit_);
    const auto end = begin + static_cast<std::int64_t>(row * unit_);
    if (begin < 0 || end > static_cast<std::int64_t>(buffer_->size))
      return violation("vkCmdDispatch", "it leaves the buffer");
    const auto in_memory = [this](std::int64_t at) { return buffer_->offset + static_cast<Bytes>(at); };
    parts.push_back({buffer_, in_memory(begin), in_memory(end), write_});
  }

 private:
  std::shared_ptr<Buffer> buffer_;
  VkDeviceAddress first_;
  Bytes unit_;
  bool write_;
};

std::vector<Part> parts_of(const Numbers& the, Bytes unit) {
  std::vector<Part> parts;
  const Side target(the.target, true, unit), source(the.source, false, unit);
  for (std::uint32_t i = 0; i < the.all; i += the.row) {
    const std::int64_t rows = i / the.row, a = rows % the.inner, lines = rows / the.inner;
    const std::int64_t b = lines % the.middle, c = lines / the.middle;
    target.add(parts, a * the.target_inner + b * the.target_middle + c * the.target_outer, the.row);
    source.add(parts, the.source_first + a * the.source_inner + b * the.source_middle + c * the.source_outer, the.row);
  }
  return parts;
}

}  // namespace

namespace calls {

VkDeviceAddress vkGetBufferDeviceAddress(VkDevice device, const VkBufferDeviceAddressInfo* info) {
  const VkDeviceAddress address = next().vkGetBufferDeviceAddress(device, info);
  const Lock lock(lock_of_all());
  if (auto* buffer = find(world().buffers, info->buffer)) buffer->address = address;
  return address;
}

VkResult vkCreateShaderModule(VkDevice device, const VkShaderModuleCreateInfo* info,
                              const VkAllocationCallbacks* allocator, VkShaderModule* made) {
  const VkResult result = next().vkCreateShaderModule(device, info, allocator, made);
  const Lock lock(lock_of_all());
  if (result == VK_SUCCESS && find(world().devices, device))
    world().row_shaders[*made] = stride_of(std::span(info->pCode, info->codeSize / sizeof(std::uint32_t)));
  return result;
}

void vkDestroyShaderModule(VkDevice device, VkShaderModule handle, const VkAllocationCallbacks* allocator) {
  {
    const Lock lock(lock_of_all());
    world().row_shaders.erase(handle);
  }
  next().vkDestroyShaderModule(device, handle, allocator);
}

VkResult vkCreateComputePipelines(VkDevice device, VkPipelineCache cache, std::uint32_t count,
                                  const VkComputePipelineCreateInfo* infos, const VkAllocationCallbacks* allocator,
                                  VkPipeline* made) {
  const VkResult result = next().vkCreateComputePipelines(device, cache, count, infos, allocator, made);
  const Lock lock(lock_of_all());
  if (result != VK_SUCCESS) return result;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (const auto shader = world().row_shaders.find(infos[i].stage.module); shader != world().row_shaders.end())
      world().row_pipelines[made[i]] = shader->second;
  }
  return result;
}

void vkDestroyPipeline(VkDevice device, VkPipeline handle, const VkAllocationCallbacks* allocator) {
  {
    const Lock lock(lock_of_all());
    world().row_pipelines.erase(handle);
  }
  next().vkDestroyPipeline(device, handle, allocator);
}

void vkCmdBindPipeline(VkCommandBuffer handle, VkPipelineBindPoint point, VkPipeline pipeline) {
  {
    const Lock lock(lock_of_all());
    auto* commands = find(world().commands, handle);
    const auto found = world().row_pipelines.find(pipeline);
    if (commands && point == VK_PIPELINE_BIND_POINT_COMPUTE) {
      commands->unit = found == world().row_pipelines.end() ? 0 : found->second;
      commands->numbers.clear();
    }
  }
  next().vkCmdBindPipeline(handle, point, pipeline);
}

void vkCmdPushConstants(VkCommandBuffer handle, VkPipelineLayout layout, VkShaderStageFlags stages,
                        std::uint32_t offset, std::uint32_t size, const void* values) {
  {
    const Lock lock(lock_of_all());
    auto* commands = find(world().commands, handle);
    if (commands && offset == 0) {
      const auto* const begin = static_cast<const std::byte*>(values);
      commands->numbers.assign(begin, begin + size);
    }
  }
  next().vkCmdPushConstants(handle, layout, stages, offset, size, values);
}

void vkCmdDispatch(VkCommandBuffer handle, std::uint32_t x, std::uint32_t y, std::uint32_t z) {
  {
    const Lock lock(lock_of_all());
    const auto* const commands = find(world().commands, handle);
    if (commands && commands->unit != 0 && commands->numbers.size() == sizeof(Numbers)) {
      Numbers numbers;
      std::memcpy(&numbers, commands->numbers.data(), sizeof numbers);
      record(handle, "vkCmdDispatch", parts_of(numbers, commands->unit), Where::shaders);
    }
  }
  next().vkCmdDispatch(handle, x, y, z);
}

}  // namespace calls
}  // namespace judge
