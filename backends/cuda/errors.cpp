// SPDX-License-Identifier: Apache-2.0
#include "errors.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <new>

#include "driver.hpp"
#include "ending.hpp"
#include "host_calls.hpp"
#include "sticky_errors.hpp"
#include "weir/error.hpp"

namespace weir::cuda {
namespace {

class Category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "cuda"; }
  std::string message(int value) const override { return describe(static_cast<CUresult>(value)); }

  std::error_condition default_error_condition(int value) const noexcept override {
    const auto result = static_cast<CUresult>(value);
    if (find_sticky(result)) return Errc::device_lost;
    switch (result) {
      case CUDA_ERROR_OUT_OF_MEMORY: return Errc::out_of_memory;
      case CUDA_ERROR_INVALID_VALUE:
      case CUDA_ERROR_INVALID_DEVICE:
      case CUDA_ERROR_INVALID_CONTEXT:
      case CUDA_ERROR_INVALID_HANDLE: return Errc::invalid_argument;
      case CUDA_ERROR_NOT_SUPPORTED:
      case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
      case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
      case CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD:
      case CUDA_ERROR_CAPTURED_EVENT: return Errc::unsupported;
      case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
      case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
      case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED: return Errc::incompatible;
      case CUDA_ERROR_NOT_PERMITTED:
      case CUDA_ERROR_OPERATING_SYSTEM: return Errc::permission_denied;
      case CUDA_ERROR_TIMEOUT: return Errc::timed_out;
      case CUDA_ERROR_NOT_INITIALIZED:
      case CUDA_ERROR_DEINITIALIZED:
      case CUDA_ERROR_DEVICE_UNAVAILABLE:
      case CUDA_ERROR_SYSTEM_NOT_READY:
      case CUDA_ERROR_UNKNOWN: return Errc::device_lost;
      default: return {value, *this};
    }
  }
};

}  // namespace

const std::error_category& category() noexcept {
  // Not on the heap, because it also serves reports that there is no memory.
  alignas(Category) static std::byte place[sizeof(Category)];
  static const auto& instance = *new (place) Category;
  return instance;
}

std::string describe(CUresult result) {
  const char* name = nullptr;
  const char* meaning = nullptr;
  if (const Driver* cu = driver_if_loaded()) {
    cu->GetErrorName(result, &name);
    cu->GetErrorString(result, &meaning);
  }
  std::string text = name ? name : "CUDA error";
  text += " (" + std::to_string(static_cast<int>(result)) + ")";
  if (meaning) text += std::string(": ") + meaning;
  if (const auto* last = find_sticky(result)) text += std::string("; ") + last->words;
  if (forked_after_load()) text += "; CUDA does not work in a process forked after it was loaded, use spawn";
  return text;
}

void fail(CUresult result, const char* call, const std::string& what) {
  if (result == CUDA_ERROR_DEINITIALIZED) end_call(call);
  CUcontext current = nullptr;
  const Driver* const cu = driver_if_loaded();  // null when the driver itself could not be loaded
  if (cu && cu->CtxGetCurrent(&current) == CUDA_SUCCESS) HostCalls::get().notice(result, current);
  if (!find_sticky(result) && is_last_answer(result)) {
    throw Error(Errc::device_lost, std::string(call) + (what.empty() ? "" : ": " + what) + ": " + describe(result) +
                                       "; the driver answers every call so");
  }
  throw Error(code_of(result), std::string(call) + (what.empty() ? "" : ": " + what) + ": " + describe(result));
}

void report_failure(CUresult result, const char* call, const spi::DeviceState& device) noexcept {
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED) return;
  const auto code = code_of(result);
  if (find_sticky(result)) {
    static std::atomic<bool> said{false};
    if (said.exchange(true)) return;
  }
  try {
    report({code, call, device.describe() + ": " + describe(result)});
  } catch (...) {
    report({code, call, "no memory for the message"});
  }
}

void report_leak(const char* where, std::size_t bytes, const char* why) noexcept {
  std::array<char, 512> text{};
  std::snprintf(text.data(), text.size(), "%zu bytes are leaked: %s", bytes, why);
  report({make_error_code(std::errc::not_enough_memory), where, text.data()});
}

}  // namespace weir::cuda
