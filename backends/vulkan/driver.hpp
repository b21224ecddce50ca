// SPDX-License-Identifier: Apache-2.0
#pragma once
// The Vulkan loader, found at run time and never linked. Read device.hpp next.

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <vulkan/vulkan.h>

#include <cstdint>
#include <string>

namespace weir::vulkan {

struct InstanceTable {
#define WEIR_VK_INSTANCE(name) PFN_##name name = nullptr;
#define WEIR_VK_INSTANCE_OPTIONAL(name) PFN_##name name = nullptr;
#include "symbols.inc"
  /// Load all functions, those of VK_EXT_debug_utils only if that is enabled. Returns the name of the first one that is
  /// missing; null when none is.
  const char* load(PFN_vkGetInstanceProcAddr get, VkInstance instance, bool debug_utils) noexcept;
};

struct DeviceTable {
#define WEIR_VK_DEVICE(name) PFN_##name name = nullptr;
#define WEIR_VK_DEVICE_OPTIONAL(name) PFN_##name name = nullptr;
#include "symbols.inc"
  const char* load(PFN_vkGetDeviceProcAddr get, VkDevice device) noexcept;
};

/// An instance and its functions; weir's own, or an application's.
struct Instance {
  VkInstance handle = VK_NULL_HANDLE;
  std::uint32_t api = 0;  ///< the loader's version, at most 1.3; for an application's instance, lowest_api
  InstanceTable fn;
};

/// Settings from the environment, read once.
struct Knobs {
  bool validation = false;         ///< WEIR_VULKAN_VALIDATION=1: Khronos layer with synchronization checks
  bool force_staging = false;      ///< WEIR_VULKAN_FORCE_STAGING=1: map staging memory only
  bool force_noncoherent = false;  ///< WEIR_VULKAN_FORCE_NONCOHERENT=1: flush and invalidate all mapped memory
};
const Knobs& knobs() noexcept;

inline constexpr std::uint32_t lowest_api = VK_API_VERSION_1_2;

/// Load libvulkan.so.1 (WEIR_VULKAN_LIBRARY names another file) and make an instance. On failure, return null and give
/// the reason in one line. Neither the library nor the instance is ever given back, so that the order of destruction at
/// exit cannot matter.
const Instance* open_instance(std::string& reason);

/// Return text such as "1.3.230".
std::string version_string(std::uint32_t version);

/// Notice forks and the end of the process from now on. At exit, drivers and layers take their state down even if other
/// threads still use them, and the exit handler that was registered last runs first. So this registers weir's handler,
/// and `did` registers it again whenever something was done with them for the first time.
void watch_process() noexcept;

/// Things that may make a driver register exit handlers when they are done for the first time. The values are bits.
enum class Doing : unsigned {
  create = 1,
  destroy = 2,
  poll = 4,
  wait = 8,
  share = 16,
  touch = 32,
  copy = 64,
  fill = 128,
  follow = 256,
  acquire = 512,
  submit_copy = 1024,
  submit_fill = 2048,
  submit_follow = 4096,
  submit_acquire = 8192,
  submit = 16384,
  end = 32768,
};
/// Say that `what`, one or several bits, was done.
void did(Doing what) noexcept;

/// Return whether no driver call is allowed any more, because the process ends or is a forked child.
bool process_ends() noexcept;

/// Throw unsupported if this process was forked from one that had loaded Vulkan.
void check_process();

/// Held around driver calls. Converts to false in a forked child and once the process ends: then the driver must not be
/// called, and everything counts as complete. The end of the process waits a moment for threads that hold one. A thread
/// that holds one may take another.
class DriverCall {
 public:
  explicit DriverCall(Doing what) noexcept;
  ~DriverCall();
  DriverCall(const DriverCall&) = delete;
  DriverCall& operator=(const DriverCall&) = delete;
  explicit operator bool() const noexcept { return allowed_; }

 private:
  Doing what_;
  bool allowed_;
};

/// Held around driver calls whose result somebody needs. Throws device_lost once the process ends. Threads other than
/// the one that ends the process wait a moment before they throw; most likely they end with the process meanwhile.
class NeededCall : private DriverCall {
 public:
  explicit NeededCall(Doing what);
};

}  // namespace weir::vulkan
