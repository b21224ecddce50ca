// SPDX-License-Identifier: Apache-2.0
#include "region_shader.hpp"

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "copy/region.hpp"
#include "logical.hpp"

namespace weir::vulkan {
namespace {

using spi::Region;
using spi::RegionDimension;

constexpr std::uint32_t copy_rows_4[] = {
#include "shaders/copy_rows_4.inc"
};
constexpr std::uint32_t copy_rows_8[] = {
#include "shaders/copy_rows_8.inc"
};
constexpr std::uint32_t copy_rows_16[] = {
#include "shaders/copy_rows_16.inc"
};

constexpr std::uint32_t least_unit = 4, most_unit = 16;

std::span<const std::uint32_t> code_of(std::uint32_t unit) {
  if (unit == 4) return copy_rows_4;
  if (unit == 8) return copy_rows_8;
  return copy_rows_16;
}

std::size_t place_of(std::uint32_t unit) { return static_cast<std::size_t>(std::countr_zero(unit)) - 2; }

// Return the largest unit that divides both addresses, the row and all steps.
std::uint32_t unit_of(VkDeviceAddress dst, VkDeviceAddress src, const Region& region) {
  auto bits = dst | src | region.row_bytes | most_unit;
  for (const RegionDimension& dimension : region.dimensions)
    bits |= static_cast<std::uint64_t>(dimension.dst_step) | static_cast<std::uint64_t>(dimension.src_step);
  return 1U << std::countr_zero(bits);
}

bool can_count(const Region& region, std::uint32_t unit) {
  constexpr std::size_t most = RowNumbers::most_units;
  const detail::PlacedRegion placed{0, 0, region};
  const auto units = [unit](detail::Range range) { return (range.end - range.begin) / unit; };
  return region.bytes() / unit <= most && units(detail::written_range(placed)) <= most &&
         units(detail::read_range(placed)) <= most;
}

}  // namespace

std::uint32_t RowNumbers::groups() const noexcept { return std::min((units + group - 1) / group, most_groups); }

RowDispatches row_dispatches(VkDeviceAddress dst, VkDeviceAddress src, const Region& region) {
  RowDispatches made{unit_of(dst, src, region), {}};
  if (made.unit < least_unit || !can_count(region, made.unit)) return {};
  const std::span all(region.dimensions);
  const std::span inside = all.last(std::min<std::size_t>(all.size(), 3));
  const auto at = [&](std::size_t from_inside) {
    return from_inside < inside.size() ? inside[inside.size() - 1 - from_inside] : RegionDimension{1, 0, 0};
  };
  const auto unit = static_cast<std::ptrdiff_t>(made.unit);
  const auto steps = [unit](std::ptrdiff_t bytes) { return static_cast<std::int32_t>(bytes / unit); };
  const RegionDimension inner = at(0), middle = at(1), outer = at(2);
  RowNumbers numbers{};
  numbers.row = static_cast<std::uint32_t>(region.row_bytes / made.unit);
  numbers.inner = static_cast<std::uint32_t>(inner.count);
  numbers.middle = static_cast<std::uint32_t>(middle.count);
  numbers.units = numbers.row * numbers.inner * numbers.middle * static_cast<std::uint32_t>(outer.count);
  numbers.dst_inner = steps(inner.dst_step);
  numbers.dst_middle = steps(middle.dst_step);
  numbers.dst_outer = steps(outer.dst_step);
  numbers.src_inner = steps(inner.src_step);
  numbers.src_middle = steps(middle.src_step);
  numbers.src_outer = steps(outer.src_step);
  std::ptrdiff_t below = 0;  // of the first row, on the source's side
  for (const RegionDimension& one : inside)
    below += std::max<std::ptrdiff_t>(-one.src_step, 0) * static_cast<std::ptrdiff_t>(one.count - 1);
  numbers.src_first = steps(below);
  spi::for_each_row(all.first(all.size() - inside.size()), [&](std::ptrdiff_t to, std::ptrdiff_t from) {
    numbers.dst = dst + static_cast<VkDeviceAddress>(to);
    numbers.src = src + static_cast<VkDeviceAddress>(from - below);
    made.all.push_back(numbers);
  });
  return made;
}

RegionShader::Pipeline RegionShader::pipeline(std::uint32_t unit) noexcept {
  const std::scoped_lock lock(mutex_);
  if (!layout_) {
    const VkPushConstantRange numbers{VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(RowNumbers)};
    VkPipelineLayoutCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
    info.pushConstantRangeCount = 1;
    info.pPushConstantRanges = &numbers;
    if (logical_.fn.vkCreatePipelineLayout(logical_.handle, &info, nullptr, &layout_) != VK_SUCCESS)
      layout_ = VK_NULL_HANDLE;
  }
  if (!layout_) return {};
  VkPipeline& made = pipelines_[place_of(unit)];
  if (!made) made = make(unit);
  return {made, layout_};
}

VkPipeline RegionShader::make(std::uint32_t unit) const noexcept {
  const auto code = code_of(unit);
  VkShaderModuleCreateInfo module_info{};
  module_info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  module_info.codeSize = code.size_bytes();
  module_info.pCode = code.data();
  VkShaderModule module = VK_NULL_HANDLE;
  if (logical_.fn.vkCreateShaderModule(logical_.handle, &module_info, nullptr, &module) != VK_SUCCESS) return {};
  VkComputePipelineCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module;
  info.stage.pName = "main";
  info.layout = layout_;
  VkPipeline made = VK_NULL_HANDLE;
  if (logical_.fn.vkCreateComputePipelines(logical_.handle, VK_NULL_HANDLE, 1, &info, nullptr, &made) != VK_SUCCESS)
    made = VK_NULL_HANDLE;
  logical_.fn.vkDestroyShaderModule(logical_.handle, module, nullptr);
  return made;
}

void RegionShader::destroy() noexcept {
  const std::scoped_lock lock(mutex_);
  for (VkPipeline& made : pipelines_) logical_.fn.vkDestroyPipeline(logical_.handle, std::exchange(made, {}), nullptr);
  logical_.fn.vkDestroyPipelineLayout(logical_.handle, std::exchange(layout_, {}), nullptr);
}

}  // namespace weir::vulkan
