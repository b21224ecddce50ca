// SPDX-License-Identifier: Apache-2.0
#pragma once
// The two scopes of a synchronization command, as far as copies, fills, ownership and the host can tell stages apart
// (Vulkan specification, "Execution and Memory Dependencies").

#include <array>
#include <cstddef>

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <vulkan/vulkan.h>

#include "clock.hpp"

namespace judge {

/// Where work happens. Ownership transfers happen in no stage of their own: only ALL_COMMANDS covers them.
enum class Where : std::size_t { copies, shaders, ownership, host, count };
inline constexpr std::size_t places = static_cast<std::size_t>(Where::count);
inline constexpr std::array all_places{Where::copies, Where::shaders, Where::ownership, Where::host};

using Places = std::array<bool, places>;

/// One of the two scopes of a stage mask: the operations that it orders, and whose accesses a mask can name.
struct Scope {
  Places operations{}, accesses{};
  [[nodiscard]] bool orders(Where where) const { return operations[static_cast<std::size_t>(where)]; }
  [[nodiscard]] bool accessed(Where where) const { return accesses[static_cast<std::size_t>(where)]; }
};
Scope first_scope(VkPipelineStageFlags stages);
Scope second_scope(VkPipelineStageFlags stages);

/// Whether `mask` names the reads or writes that happen there.
bool names_reads(VkAccessFlags mask, Where where);
bool names_writes(VkAccessFlags mask, Where where);

/// What is known at some place of a queue, for all that is submitted to it later.
struct View {
  Clock before;     ///< is complete before it begins
  Clock available;  ///< of these, whose writes are available
  Clock read;       ///< of these, whose writes are visible to its reads
  Clock written;    ///< and to its writes

  void merge(const View& other) {
    before.merge(other.before);
    available.merge(other.available);
    read.merge(other.read);
    written.merge(other.written);
  }
};

/// All places of a queue.
struct Views {
  std::array<View, places> of{};
  View& operator[](Where where) { return of[static_cast<std::size_t>(where)]; }
  const View& operator[](Where where) const { return of[static_cast<std::size_t>(where)]; }
};

}  // namespace judge
