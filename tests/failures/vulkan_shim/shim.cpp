// SPDX-License-Identifier: Apache-2.0
// A Vulkan loader that passes every call on to the real one, counts what is made and destroyed, and fails the n-th
// fallible call: before the driver and its layers see it. WEIR_FAIL_VULKAN_CALL=<n>,<code> arms it when it is loaded,
// WEIR_HIDE_VULKAN_FUNCTION=<name> lets devices be without that function, and FAILING_VULKAN_REAL names the loader that
// calls go on to.
#include "shim.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "vulkan/tests/interpose.hpp"

namespace {

using weir::test::vulkan_shim::Hit;
using weir::test::vulkan_shim::objects;

struct Code {
  VkResult result;
  const char* name;
};
#define CODE(name) \
  { VK_ERROR_##name, "VK_ERROR_" #name }
constexpr Code memory_codes[] = {CODE(OUT_OF_HOST_MEMORY), CODE(OUT_OF_DEVICE_MEMORY)};
constexpr Code allocate_codes[] = {CODE(OUT_OF_HOST_MEMORY), CODE(OUT_OF_DEVICE_MEMORY), CODE(TOO_MANY_OBJECTS),
                                   CODE(INVALID_EXTERNAL_HANDLE), CODE(DEVICE_LOST)};
constexpr Code map_codes[] = {CODE(OUT_OF_HOST_MEMORY), CODE(OUT_OF_DEVICE_MEMORY), CODE(MEMORY_MAP_FAILED)};
constexpr Code run_codes[] = {CODE(OUT_OF_HOST_MEMORY), CODE(OUT_OF_DEVICE_MEMORY), CODE(DEVICE_LOST)};
constexpr Code export_codes[] = {CODE(TOO_MANY_OBJECTS), CODE(OUT_OF_HOST_MEMORY)};
constexpr Code instance_codes[] = {CODE(OUT_OF_HOST_MEMORY), CODE(INITIALIZATION_FAILED), CODE(LAYER_NOT_PRESENT),
                                   CODE(EXTENSION_NOT_PRESENT), CODE(INCOMPATIBLE_DRIVER)};
constexpr Code list_codes[] = {CODE(OUT_OF_HOST_MEMORY), CODE(INITIALIZATION_FAILED)};
constexpr Code device_codes[] = {CODE(OUT_OF_HOST_MEMORY),
                                 CODE(OUT_OF_DEVICE_MEMORY),
                                 CODE(INITIALIZATION_FAILED),
                                 CODE(EXTENSION_NOT_PRESENT),
                                 CODE(FEATURE_NOT_PRESENT),
                                 CODE(TOO_MANY_OBJECTS),
                                 CODE(DEVICE_LOST)};
#undef CODE

std::span<const Code> codes_of(std::string_view call) {
  if (call == "vkAllocateMemory") return allocate_codes;
  if (call == "vkMapMemory") return map_codes;
  if (call == "vkGetMemoryFdKHR") return export_codes;
  if (call == "vkCreateInstance") return instance_codes;
  if (call == "vkEnumeratePhysicalDevices") return list_codes;
  if (call == "vkCreateDevice") return device_codes;
  for (const char* name : {"vkQueueSubmit", "vkQueueWaitIdle", "vkWaitSemaphores", "vkGetSemaphoreCounterValue"}) {
    if (call == name) return run_codes;
  }
  return memory_codes;
}

std::mutex mutex;  // of what follows
bool armed = false;
std::size_t calls = 0, wanted = 0, wanted_code = 0;
Hit hit{};

void arm(std::size_t nth, std::size_t code) {
  const std::scoped_lock lock(mutex);
  armed = true;
  calls = 0;
  wanted = nth;
  wanted_code = code;
  hit = {};
}

/// VK_SUCCESS when the call shall work.
VkResult refused(const char* call) {
  if (std::string_view(call) == "vkSetDebugUtilsObjectNameEXT") return VK_SUCCESS;  // weir does without names
  const std::scoped_lock lock(mutex);
  if (!armed || ++calls != wanted) return VK_SUCCESS;
  const auto codes = codes_of(call);
  const Code& code = codes[wanted_code % codes.size()];
  hit = {call, code.name, codes.size()};
  return code.result;
}

std::atomic<void (*)()> enter{nullptr}, leave{nullptr};
struct Bracket {
  Bracket() {
    if (auto* function = enter.load()) function();
  }
  ~Bracket() {
    if (auto* function = leave.load()) function();
  }
  Bracket(const Bracket&) = delete;
  Bracket& operator=(const Bracket&) = delete;
};

std::atomic<long> alive[std::size(objects)];

/// How many there are of what `call` makes or ends; null when it does neither.
std::atomic<long>* count_of(std::string_view call) {
  for (std::size_t i = 0; i < std::size(objects); ++i) {
    if (call == objects[i].maker || call == objects[i].end) return &alive[i];
  }
  return nullptr;
}

PFN_vkDeviceWaitIdle device_wait_idle = nullptr;
PFN_vkQueueWaitIdle queue_wait_idle = nullptr;

// Waiting for a device needs all its queues to itself.
std::mutex queues;
template <class First>
std::unique_lock<std::mutex> lock_for(First) {
  return {};
}
std::unique_lock<std::mutex> lock_for(VkQueue) { return std::unique_lock(queues); }

// A lost device runs nothing any more: so whoever is told that it is lost must find it idle.
void come_to_rest(VkDevice device) {
  const std::scoped_lock lock(queues);
  (void)device_wait_idle(device);
}
void come_to_rest(VkQueue queue) { (void)queue_wait_idle(queue); }
template <class Other>
void come_to_rest(Other) {}

/// Fails a call on demand, and counts what is made and ended.
struct Failing {
  template <class R, class... A>
  static R call(const char* name, R(VKAPI_PTR* next)(A...), A... args) {
    const Bracket bracket;
    auto* count = count_of(name);
    if constexpr (std::is_same_v<R, VkResult>) {
      const auto lock = lock_for(std::get<0>(std::tuple(args...)));
      if (const VkResult refusal = refused(name); refusal != VK_SUCCESS) {
        if (refusal == VK_ERROR_DEVICE_LOST) come_to_rest(std::get<0>(std::tuple(args...)));
        return refusal;
      }
      const VkResult result = next(args...);
      if (result == VK_SUCCESS && count) ++*count;
      return result;
    } else {
      if constexpr (sizeof...(A) >= 2) {  // destroying null destroys nothing
        if (count && std::get<sizeof...(A) - 2>(std::tuple(args...))) --*count;
      }
      return next(args...);
    }
  }
};

PFN_vkGetInstanceProcAddr real_instance_proc() {
  static const auto get = weir::vulkan::interpose::next_loader("FAILING_VULKAN_REAL");
  return get;
}

PFN_vkGetDeviceProcAddr real_device_proc = nullptr;
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_proc(VkDevice device, const char* name);

PFN_vkVoidFunction wrapped(const char* name, PFN_vkVoidFunction real) {
  if (!real) return nullptr;
  if (std::strcmp(name, "vkGetDeviceProcAddr") == 0) {
    real_device_proc = reinterpret_cast<PFN_vkGetDeviceProcAddr>(real);
    return reinterpret_cast<PFN_vkVoidFunction>(&device_proc);
  }
  return weir::vulkan::interpose::Front<Failing>::of(name, real);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_proc(VkDevice device, const char* name) {
  const Bracket bracket;
  static const char* const hidden = std::getenv("WEIR_HIDE_VULKAN_FUNCTION");
  if (hidden && std::strcmp(name, hidden) == 0) return nullptr;
  if (!device_wait_idle) {
    device_wait_idle = reinterpret_cast<PFN_vkDeviceWaitIdle>(real_device_proc(device, "vkDeviceWaitIdle"));
    queue_wait_idle = reinterpret_cast<PFN_vkQueueWaitIdle>(real_device_proc(device, "vkQueueWaitIdle"));
  }
  return wrapped(name, real_device_proc(device, name));
}

const bool armed_by_environment = [] {
  const char* text = std::getenv("WEIR_FAIL_VULKAN_CALL");
  std::size_t nth = 0, code = 0;
  if (!text || std::sscanf(text, "%zu,%zu", &nth, &code) != 2) return false;
  arm(nth, code);
  return true;
}();

}  // namespace

#pragma GCC visibility push(default)
extern "C" {
void failing_vulkan_arm(std::size_t nth, std::size_t code) { arm(nth, code); }
void failing_vulkan_disarm(Hit* out) {
  const std::scoped_lock lock(mutex);
  armed = false;
  *out = hit;
}
long failing_vulkan_alive(const char* call) {
  const auto* count = count_of(call);
  return count ? count->load() : 0;
}
void failing_vulkan_around(void (*before)(), void (*after)()) {
  enter = before;
  leave = after;
}
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char* name) {
  const Bracket bracket;
  const auto get = real_instance_proc();
  return get ? wrapped(name, get(instance, name)) : nullptr;
}
}
#pragma GCC visibility pop
