// SPDX-License-Identifier: Apache-2.0
#pragma once
// A loader of an application's that answers otherwise for one function.

#include <cstring>

#include "app.hpp"

namespace weir::vulkan::test {

/// A stand-in for the application's loader that answers otherwise for one function.
struct Altered {
  static inline GetInstanceProcAddr whole = nullptr;
  static inline PFN_vkGetDeviceProcAddr whole_of_device = nullptr;
  static inline const char* name = nullptr;
  static inline PFN_vkVoidFunction instead = nullptr;

  static PFN_vkVoidFunction of_instance(VkInstance instance, const char* wanted) {
    if (std::strcmp(wanted, name) == 0) return instead;
    const auto found = whole(instance, wanted);
    if (std::strcmp(wanted, "vkGetDeviceProcAddr") != 0) return found;
    whole_of_device = reinterpret_cast<PFN_vkGetDeviceProcAddr>(found);
    return reinterpret_cast<PFN_vkVoidFunction>(&of_device);
  }
  static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL of_device(VkDevice device, const char* wanted) {
    return std::strcmp(wanted, name) == 0 ? instead : whole_of_device(device, wanted);
  }
};

inline AdoptOptions altered(AdoptOptions options, const char* name, PFN_vkVoidFunction instead = nullptr) {
  Altered::whole = options.get_instance_proc_addr;
  Altered::name = name;
  Altered::instead = instead;
  options.get_instance_proc_addr = &Altered::of_instance;
  return options;
}

}  // namespace weir::vulkan::test
