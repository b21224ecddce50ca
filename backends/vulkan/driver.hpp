// SPDX-License-Identifier: Apache-2.0
#pragma once
// The Vulkan loader, found at run time; never linked. Then device.hpp.

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <vulkan/vulkan.h>

#include <cstdint>
#include <string>

namespace weir::vulkan {

struct InstanceTable {
#define WEIR_VK_INSTANCE(name) PFN_##name name = nullptr;
#include "symbols.inc"
  /// Name of the first function that is missing; null when complete.
  const char* load(PFN_vkGetInstanceProcAddr get, VkInstance instance) noexcept;
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
  std::uint32_t api = 0;  ///< of the loader or, for an application's, what it allows
  InstanceTable fn;
};

/// Environment, read once.
struct Knobs {
  bool validation = false;         ///< WEIR_VULKAN_VALIDATION=1: Khronos layer with synchronization checks
  bool force_staging = false;      ///< WEIR_VULKAN_FORCE_STAGING=1: map staging memory only
  bool force_noncoherent = false;  ///< WEIR_VULKAN_FORCE_NONCOHERENT=1: flush and invalidate all mapped memory
};
const Knobs& knobs() noexcept;

inline constexpr std::uint32_t lowest_api = VK_API_VERSION_1_2;

/// Load libvulkan.so.1 (WEIR_VULKAN_LIBRARY names another file) and make an instance. Null with a one-line `reason`.
/// Neither is ever given back: no order of destruction at exit can matter.
const Instance* open_instance(std::string& reason);

/// "1.3.230"
std::string version_string(std::uint32_t version);

/// Notice forks and the end of the process from now on. Drivers and layers take their state down at exit without
/// asking who still runs, and what was registered last runs first: so this registers again after every first time that
/// something was done with them.
void watch_process() noexcept;

/// What may make a driver register exit handlers when it is done for the first time. Bits.
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
/// Say that it was done.
void did(Doing what) noexcept;

/// Whether no driver call is allowed any more, because the process ends.
bool process_ends() noexcept;

/// Whether this process was forked from one that had loaded Vulkan. Throws unsupported if so.
void check_process();

/// Held around driver calls. False in a forked child and once the process ends: the driver must not be called then, and
/// everything counts as complete. The end of the process waits a moment for those who are inside; who is inside may
/// enter again.
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

/// Held around driver calls whose result somebody needs. Throws device_lost once the process ends; on other threads
/// than the one that ends it, after a moment in which they most likely end with it.
class NeededCall : private DriverCall {
 public:
  explicit NeededCall(Doing what);
};

}  // namespace weir::vulkan
