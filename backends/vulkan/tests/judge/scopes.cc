// SPDX-License-Identifier: Apache-2.0
#include "scopes.hpp"

namespace judge {
namespace {

constexpr VkPipelineStageFlags top = VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT;
constexpr VkPipelineStageFlags bottom = VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT;
constexpr VkPipelineStageFlags all = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
constexpr VkPipelineStageFlags transfer = VK_PIPELINE_STAGE_TRANSFER_BIT;
constexpr VkPipelineStageFlags host = VK_PIPELINE_STAGE_HOST_BIT;

/// Top and bottom of the pipe stand for all stages on one side and for none on the other, and access nothing.
Scope scope(VkPipelineStageFlags stages, VkPipelineStageFlags stands_for_all) {
  Scope made;
  const auto put = [](Places& set, Where where, bool in) { set[static_cast<std::size_t>(where)] = in; };
  const VkPipelineStageFlags whole = all | stands_for_all;
  const VkPipelineStageFlags others = ~(top | bottom | all | transfer | host);
  put(made.operations, Where::copies, (stages & (transfer | whole)) != 0);
  put(made.operations, Where::shaders, (stages & (others | whole)) != 0);
  put(made.operations, Where::ownership, (stages & whole) != 0);
  put(made.operations, Where::host, (stages & host) != 0);
  put(made.accesses, Where::copies, (stages & (transfer | all)) != 0);
  put(made.accesses, Where::shaders, (stages & (others | all)) != 0);
  put(made.accesses, Where::ownership, (stages & all) != 0);
  put(made.accesses, Where::host, (stages & host) != 0);
  return made;
}

bool names(VkAccessFlags mask, Where where, VkAccessFlags memory, VkAccessFlags of_copies, VkAccessFlags of_host) {
  switch (where) {
    case Where::copies: return (mask & (memory | of_copies)) != 0;
    case Where::host: return (mask & (memory | of_host)) != 0;
    default: return (mask & ~(of_copies | of_host)) != 0;
  }
}

}  // namespace

Scope first_scope(VkPipelineStageFlags stages) { return scope(stages, bottom); }
Scope second_scope(VkPipelineStageFlags stages) { return scope(stages, top); }

bool names_reads(VkAccessFlags mask, Where where) {
  return names(mask, where, VK_ACCESS_MEMORY_READ_BIT, VK_ACCESS_TRANSFER_READ_BIT, VK_ACCESS_HOST_READ_BIT);
}

bool names_writes(VkAccessFlags mask, Where where) {
  return names(mask, where, VK_ACCESS_MEMORY_WRITE_BIT, VK_ACCESS_TRANSFER_WRITE_BIT, VK_ACCESS_HOST_WRITE_BIT);
}

}  // namespace judge
