// SPDX-License-Identifier: Apache-2.0
// Records region copies: by a shader where there are many rows of whole words, else with a region of the driver's copy
// for each row. For each such region NVIDIA's driver (580) takes 2 us.
#include <algorithm>
#include <vector>

#include "copy/region.hpp"
#include "device.hpp"
#include "logical.hpp"
#include "stream.hpp"

namespace weir::vulkan {
namespace {

constexpr std::size_t regions_at_once = 4096;  // of one copy command

// Return whether a shader is faster for rows of so many units. On a processor it takes as long for each unit as a copy
// of the driver takes for some 8.
bool is_for_shaders(const PhysicalDevice& device, std::size_t rows, std::size_t units_each) {
  return rows > 16 && (device.is_gpu || units_each <= 8);
}

}  // namespace

// Barriers are for the whole range that the rows lie in.
void BatchedStream::do_copy_region(const spi::RegionOp& op, std::uint64_t value) {
  const DriverCall call(Doing::copy);
  if (!call) return;
  const detail::PlacedRegion placed{op.dst.offset, op.src.offset, *op.region};
  const auto written = detail::written_range(placed), read = detail::read_range(placed);
  Memory &dst = memory_of(op.dst), &src = memory_of(op.src);
  const RowDispatches dispatches = dispatches_for(op);
  RegionShader::Pipeline shader;
  if (!dispatches.all.empty()) shader = logical_.region_shader().pipeline(dispatches.unit);
  std::vector<VkBufferCopy> regions;
  if (!shader.handle) regions.reserve(std::min(placed.region.rows(), regions_at_once));
  open();
  order({{&src, read.begin, read.end, false}, {&dst, written.begin, written.end, true}});
  doing_ |= static_cast<unsigned>(Doing::submit_copy);
  if (shader.handle) {
    dispatch(dispatches, shader);
  } else {
    copy_rows(op, regions);
  }
  recorded(value, placed.region.bytes());
}

RowDispatches BatchedStream::dispatches_for(const spi::RegionOp& op) const {
  const Memory &dst = memory_of(op.dst), &src = memory_of(op.src);
  if (dst.address == 0 || src.address == 0 || !logical_.device.computes) return {};
  RowDispatches made = row_dispatches(dst.address + op.dst.offset, src.address + op.src.offset, *op.region);
  if (made.all.empty() || !is_for_shaders(logical_.device, op.region->rows(), op.region->row_bytes / made.unit))
    return {};
  return made;
}

// The stream's other commands are copies. Barriers on both sides make the shader one of them.
void BatchedStream::dispatch(const RowDispatches& dispatches, const RegionShader::Pipeline& shader) {
  constexpr VkPipelineStageFlags copies = VK_PIPELINE_STAGE_TRANSFER_BIT,
                                 shaders = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
  barrier(copies, VK_ACCESS_TRANSFER_WRITE_BIT, shaders, VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
  const auto& fn = logical_.fn;
  fn.vkCmdBindPipeline(open_->commands, VK_PIPELINE_BIND_POINT_COMPUTE, shader.handle);
  for (const RowNumbers& numbers : dispatches.all) {
    fn.vkCmdPushConstants(open_->commands, shader.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof numbers, &numbers);
    fn.vkCmdDispatch(open_->commands, numbers.groups(), 1, 1);
  }
  barrier(shaders, VK_ACCESS_SHADER_WRITE_BIT, copies, VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
  accesses_.clear();
}

void BatchedStream::copy_rows(const spi::RegionOp& op, std::vector<VkBufferCopy>& regions) {
  const auto record = [&] {
    logical_.fn.vkCmdCopyBuffer(open_->commands, memory_of(op.src).buffer, memory_of(op.dst).buffer,
                                static_cast<std::uint32_t>(regions.size()), regions.data());
    regions.clear();
  };
  spi::for_each_row(op.region->dimensions, [&](std::ptrdiff_t to, std::ptrdiff_t from) {
    regions.push_back({op.src.offset + static_cast<std::size_t>(from), op.dst.offset + static_cast<std::size_t>(to),
                       op.region->row_bytes});
    if (regions.size() == regions_at_once) record();
  });
  if (!regions.empty()) record();
}

}  // namespace weir::vulkan
