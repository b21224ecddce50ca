// SPDX-License-Identifier: Apache-2.0
#include "errors.hpp"

#include <cstddef>
#include <new>

#include "weir/error.hpp"

namespace weir::vulkan {
namespace {

class Category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "vulkan"; }
  std::string message(int value) const override { return std::string(result_name(static_cast<VkResult>(value))); }
  std::error_condition default_error_condition(int value) const noexcept override {
    switch (static_cast<VkResult>(value)) {
      case VK_ERROR_OUT_OF_HOST_MEMORY:
      case VK_ERROR_OUT_OF_DEVICE_MEMORY:
      case VK_ERROR_OUT_OF_POOL_MEMORY:
      case VK_ERROR_MEMORY_MAP_FAILED:
      case VK_ERROR_TOO_MANY_OBJECTS: return Errc::out_of_memory;
      case VK_ERROR_DEVICE_LOST: return Errc::device_lost;
      case VK_ERROR_INVALID_EXTERNAL_HANDLE: return Errc::corrupt_descriptor;
      case VK_ERROR_INCOMPATIBLE_DRIVER: return Errc::incompatible;
      case VK_ERROR_LAYER_NOT_PRESENT:
      case VK_ERROR_EXTENSION_NOT_PRESENT:
      case VK_ERROR_FEATURE_NOT_PRESENT:
      case VK_ERROR_FORMAT_NOT_SUPPORTED: return Errc::unsupported;
      case VK_ERROR_NOT_PERMITTED_EXT: return Errc::permission_denied;
      case VK_TIMEOUT: return Errc::timed_out;
      default: return std::error_condition(value, *this);
    }
  }
};

}  // namespace

const std::error_category& vulkan_category() noexcept {
  // Not on the heap, because it also serves reports that there is no memory.
  alignas(Category) static std::byte place[sizeof(Category)];
  static const auto& category = *new (place) Category;
  return category;
}

std::error_code make_code(VkResult result) noexcept { return {static_cast<int>(result), vulkan_category()}; }

std::string_view result_name(VkResult result) noexcept {
  switch (result) {
#define WEIR_NAME(name) \
  case name: return #name;
    WEIR_NAME(VK_SUCCESS)
    WEIR_NAME(VK_NOT_READY)
    WEIR_NAME(VK_TIMEOUT)
    WEIR_NAME(VK_INCOMPLETE)
    WEIR_NAME(VK_ERROR_OUT_OF_HOST_MEMORY)
    WEIR_NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY)
    WEIR_NAME(VK_ERROR_INITIALIZATION_FAILED)
    WEIR_NAME(VK_ERROR_DEVICE_LOST)
    WEIR_NAME(VK_ERROR_MEMORY_MAP_FAILED)
    WEIR_NAME(VK_ERROR_LAYER_NOT_PRESENT)
    WEIR_NAME(VK_ERROR_EXTENSION_NOT_PRESENT)
    WEIR_NAME(VK_ERROR_FEATURE_NOT_PRESENT)
    WEIR_NAME(VK_ERROR_INCOMPATIBLE_DRIVER)
    WEIR_NAME(VK_ERROR_TOO_MANY_OBJECTS)
    WEIR_NAME(VK_ERROR_FORMAT_NOT_SUPPORTED)
    WEIR_NAME(VK_ERROR_FRAGMENTED_POOL)
    WEIR_NAME(VK_ERROR_UNKNOWN)
    WEIR_NAME(VK_ERROR_OUT_OF_POOL_MEMORY)
    WEIR_NAME(VK_ERROR_INVALID_EXTERNAL_HANDLE)
    WEIR_NAME(VK_ERROR_FRAGMENTATION)
    WEIR_NAME(VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS)
    WEIR_NAME(VK_ERROR_NOT_PERMITTED_EXT)
#undef WEIR_NAME
    default: return "an unknown VkResult";
  }
}

bool is_exhaustion(VkResult result) noexcept {
  return vulkan_category().default_error_condition(static_cast<int>(result)) == Errc::out_of_memory;
}

void fail(VkResult result, const char* call, const std::string& what) {
  std::string text = what;
  if (!text.empty()) text += ": ";
  text += call;
  text += " failed with ";
  text += result_name(result);
  if (result_name(result).front() == 'a') text += " (" + std::to_string(static_cast<int>(result)) + ")";
  throw Error(make_code(result), text);
}

void report_failure(VkResult result, const char* call, std::string_view where) noexcept {
  report({make_code(result), where, call});
}

}  // namespace weir::vulkan
