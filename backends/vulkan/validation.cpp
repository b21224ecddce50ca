// SPDX-License-Identifier: Apache-2.0
#include "validation.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <string_view>
#include <vector>

#include "errors.hpp"
#include "weir/error.hpp"
#include "weir/vulkan.hpp"

namespace weir::vulkan {
namespace {

constexpr const char* layer_name = "VK_LAYER_KHRONOS_validation";
constexpr std::array layer_names{layer_name};
constexpr std::array extension_names{VK_EXT_DEBUG_UTILS_EXTENSION_NAME, VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME};
constexpr std::array enabled_features{VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};

std::atomic<bool> active{false};
std::atomic<std::uint64_t> messages{0};

VKAPI_ATTR VkBool32 VKAPI_CALL count(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                                     const VkDebugUtilsMessengerCallbackDataEXT* data, void*) {
  messages.fetch_add(1, std::memory_order_relaxed);
  std::fprintf(stderr, "weir: Vulkan validation: %s\n", data && data->pMessage ? data->pMessage : "(no text)");
  return VK_FALSE;
}

}  // namespace

std::uint64_t validation_errors() noexcept { return messages.load(std::memory_order_relaxed); }
bool validation_active() noexcept { return active.load(std::memory_order_relaxed); }

void Validation::prepare(PFN_vkEnumerateInstanceLayerProperties layers) {
  std::uint32_t number = 0;
  VkResult result = layers ? layers(&number, nullptr) : VK_SUCCESS;
  std::vector<VkLayerProperties> found(result < 0 ? 0 : number);
  if (result >= 0 && layers) result = layers(&number, found.data());
  if (result < 0) return report_failure(result, "vkEnumerateInstanceLayerProperties", "WEIR_VULKAN_VALIDATION");
  for (const auto& layer : found) found_ = found_ || std::string_view(layer.layerName) == layer_name;
  if (!found_)
    report({make_error_code(std::errc::no_such_file_or_directory), "WEIR_VULKAN_VALIDATION",
            "VK_LAYER_KHRONOS_validation is not installed (vulkan-validationlayers): nothing is validated"});
}

void Validation::extend(VkInstanceCreateInfo& info) noexcept {
  if (!found_) return;
  messenger_.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
  messenger_.messageSeverity =
      VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  messenger_.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
  messenger_.pfnUserCallback = count;
  features_.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT;
  features_.pNext = &messenger_;
  features_.enabledValidationFeatureCount = static_cast<std::uint32_t>(enabled_features.size());
  features_.pEnabledValidationFeatures = enabled_features.data();
  info.pNext = &features_;
  info.enabledLayerCount = static_cast<std::uint32_t>(layer_names.size());
  info.ppEnabledLayerNames = layer_names.data();
  info.enabledExtensionCount = static_cast<std::uint32_t>(extension_names.size());
  info.ppEnabledExtensionNames = extension_names.data();
}

void Validation::listen(PFN_vkGetInstanceProcAddr get, VkInstance instance) const noexcept {
  if (!found_) return;
  auto create = reinterpret_cast<PFN_vkCreateDebugUtilsMessengerEXT>(get(instance, "vkCreateDebugUtilsMessengerEXT"));
  auto info = messenger_;
  info.pNext = nullptr;
  VkDebugUtilsMessengerEXT handle = VK_NULL_HANDLE;  // lives as long as the instance
  active = create && create(instance, &info, nullptr, &handle) == VK_SUCCESS;
}

}  // namespace weir::vulkan
