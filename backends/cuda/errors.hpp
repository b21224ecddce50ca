// SPDX-License-Identifier: Apache-2.0
#pragma once
// The driver's results as weir's errors: the category "cuda", portable conditions, and messages that name the call and
// the sizes.

#include <cuda.h>

#include <concepts>
#include <string>
#include <string_view>
#include <system_error>

#include "weir/spi/device_state.hpp"

namespace weir::cuda {

/// Return the category whose values are CUresult.
const std::error_category& category() noexcept;

inline std::error_code code_of(CUresult result) noexcept { return {static_cast<int>(result), category()}; }

/// Return text such as "CUDA_ERROR_INVALID_VALUE (1): invalid argument". For a sticky error (sticky_errors.hpp), the
/// text also says what follows from it.
std::string describe(CUresult result);

/// Throw weir::Error "`call`: `what`: CUDA_ERROR_… (…): …", or ProcessEnds when the driver is gone.
[[noreturn]] void fail(CUresult result, const char* call, const std::string& what);

/// Report a failure in a place that must not throw. Silent when the driver is gone (process exit). Of the sticky
/// errors, which every later call returns too, only the first one is reported.
void report_failure(CUresult result, const char* call, const spi::DeviceState& device) noexcept;

/// Report that so many bytes are leaked, and why. Takes no memory.
void report_leak(const char* where, std::size_t bytes, const char* why) noexcept;

namespace detail {
inline void append(std::string& text, std::string_view part) { text += part; }
inline void append(std::string& text, const spi::DeviceState& device) { text += device.describe(); }
template <std::integral T>
void append(std::string& text, T number) {
  text += std::to_string(number);
}
}  // namespace detail

/// Throw when `result` is a failure. `parts` (text, numbers, devices) say what was tried and are read only then.
template <class... Parts>
void check(CUresult result, const char* call, const Parts&... parts) {
  if (result == CUDA_SUCCESS) [[likely]]
    return;
  std::string what;
  (detail::append(what, parts), ...);
  fail(result, call, what);
}

}  // namespace weir::cuda
