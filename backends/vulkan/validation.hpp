// SPDX-License-Identifier: Apache-2.0
#pragma once
// The Khronos validation layer with synchronization checks, when WEIR_VULKAN_VALIDATION=1 asks for it.

#include "driver.hpp"

namespace weir::vulkan {

/// Lives on the stack while an instance is made. vulkan::validation_errors() says how many messages were counted.
class Validation {
 public:
  Validation() = default;
  Validation(const Validation&) = delete;
  Validation& operator=(const Validation&) = delete;

  /// Look for the layer; report to the sink when it is not installed.
  void prepare(PFN_vkEnumerateInstanceLayerProperties layers);
  /// Switch the layer on in `info`, if it was found. This object must stay in place until the instance is made.
  void extend(VkInstanceCreateInfo& info) noexcept;
  /// Count and print errors and warnings from now on.
  void listen(PFN_vkGetInstanceProcAddr get, VkInstance instance) const noexcept;

 private:
  bool found_ = false;
  VkValidationFeaturesEXT features_{};
  VkDebugUtilsMessengerCreateInfoEXT messenger_{};
};

}  // namespace weir::vulkan
