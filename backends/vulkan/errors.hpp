// SPDX-License-Identifier: Apache-2.0
#pragma once
// VkResult as std::error_code.

#include <string>
#include <string_view>
#include <system_error>

#include "driver.hpp"

namespace weir::vulkan {

const std::error_category& vulkan_category() noexcept;
[[nodiscard]] std::error_code make_code(VkResult result) noexcept;
/// Return text such as "VK_ERROR_DEVICE_LOST".
[[nodiscard]] std::string_view result_name(VkResult result) noexcept;
/// Return whether memory, address space or the number of objects is exhausted: that is a Shortage, not an error.
[[nodiscard]] bool is_exhaustion(VkResult result) noexcept;

/// Throw Error: `fail` always, `check` unless `result` is a success. `what` names the device and what was asked of it.
[[noreturn]] void fail(VkResult result, const char* call, const std::string& what);
template <class... What>
void check(VkResult result, const char* call, const What&... what) {
  if (result < 0) [[unlikely]]
    fail(result, call, (std::string() + ... + what));
}
/// Report a failure, in destructors and at exit.
void report_failure(VkResult result, const char* call, std::string_view where) noexcept;

}  // namespace weir::vulkan
