// SPDX-License-Identifier: Apache-2.0
#include "names.hpp"

#include <array>
#include <cstdio>

#include "device.hpp"
#include "logical.hpp"
#include "segment.hpp"

namespace weir::vulkan {
namespace {

using Text = std::array<char, 64>;

bool wanted(const Logical& logical) noexcept {
  return logical.device.instance.fn.vkSetDebugUtilsObjectNameEXT != nullptr;
}

template <class Handle>
void name(const Logical& logical, VkObjectType type, Handle handle, const char* text) noexcept {
  const DriverCall call(Doing::create);
  if (!call) return;
  VkDebugUtilsObjectNameInfoEXT info{};
  info.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT;
  info.objectType = type;
  info.objectHandle = reinterpret_cast<std::uint64_t>(handle);
  info.pObjectName = text;
  (void)logical.device.instance.fn.vkSetDebugUtilsObjectNameEXT(logical.handle, &info);
}

}  // namespace

void name_memory(const Memory& memory) noexcept {
  if (!wanted(memory.logical)) return;
  constexpr std::size_t kib = 1024, mib = kib * kib;
  const bool in_mib = memory.size % mib == 0, in_kib = memory.size % kib == 0;
  const std::string_view kind = to_string(memory.kind);
  Text text;
  std::snprintf(text.data(), text.size(), "weir vulkan.%.*s %zu %s%s", static_cast<int>(kind.size()), kind.data(),
                memory.size / (in_mib   ? mib
                               : in_kib ? kib
                                        : 1),
                in_mib   ? "MiB"
                : in_kib ? "KiB"
                         : "bytes",
                memory.imported ? ", imported" : "");
  name(memory.logical, VK_OBJECT_TYPE_DEVICE_MEMORY, memory.memory, text.data());
  name(memory.logical, VK_OBJECT_TYPE_BUFFER, memory.buffer, text.data());
}

void name_timeline(const Logical& logical, VkSemaphore semaphore, std::uint64_t stream) noexcept {
  if (!wanted(logical)) return;
  Text text;
  std::snprintf(text.data(), text.size(), "weir stream %llu", static_cast<unsigned long long>(stream));
  name(logical, VK_OBJECT_TYPE_SEMAPHORE, semaphore, text.data());
}

void name_spare(const Logical& logical, VkDeviceMemory memory) noexcept {
  if (wanted(logical)) name(logical, VK_OBJECT_TYPE_DEVICE_MEMORY, memory, "weir spare");
}

}  // namespace weir::vulkan
