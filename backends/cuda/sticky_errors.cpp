// SPDX-License-Identifier: Apache-2.0
#include "sticky_errors.hpp"

#include <algorithm>
#include <iterator>

#include "driver.hpp"
#include "errors.hpp"

namespace weir::cuda {
namespace {

using enum StickyError::Ends;

constexpr const char* relaunch = "to continue using CUDA, the process must be terminated and relaunched";

// From cuda.h of CUDA 13.5. For 214 and 220, it only says what was detected; the driver repeats these two for ever,
// like the others.
constexpr StickyError table[] = {
    {CUDA_ERROR_ECC_UNCORRECTABLE, process, true, "an uncorrectable ECC error was detected during execution"},
    {CUDA_ERROR_NVLINK_UNCORRECTABLE, process, true, "an uncorrectable NVLink error was detected during the execution"},
    {CUDA_ERROR_CONTAINED, process, true, relaunch},
    {CUDA_ERROR_ILLEGAL_ADDRESS, process, true, relaunch},
    {CUDA_ERROR_LAUNCH_TIMEOUT, process, true, relaunch},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, context, false, "the context current to the calling thread has been destroyed"},
    {CUDA_ERROR_ASSERT, context, true, "the context cannot be used anymore, and must be destroyed"},
    {CUDA_ERROR_HARDWARE_STACK_ERROR, process, true, relaunch},
    {CUDA_ERROR_ILLEGAL_INSTRUCTION, process, true, relaunch},
    {CUDA_ERROR_MISALIGNED_ADDRESS, process, true, relaunch},
    {CUDA_ERROR_INVALID_ADDRESS_SPACE, process, true, relaunch},
    {CUDA_ERROR_INVALID_PC, process, true, relaunch},
    {CUDA_ERROR_LAUNCH_FAILED, process, true, relaunch},
    {CUDA_ERROR_TENSOR_MEMORY_LEAK, process, true, relaunch},
    {CUDA_ERROR_MPS_CLIENT_TERMINATED, process, true, relaunch},
    {CUDA_ERROR_EXTERNAL_DEVICE, process, true, relaunch},
};

}  // namespace

std::span<const StickyError> sticky_errors() noexcept { return table; }

const StickyError* find_sticky(CUresult result) noexcept {
  const auto found =
      std::find_if(std::begin(table), std::end(table), [&](const StickyError& one) { return one.result == result; });
  return found == std::end(table) ? nullptr : found;
}

bool is_last_answer(CUresult result) noexcept {
  if (find_sticky(result)) return true;
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY) return false;
  const Driver* const cu = driver_if_loaded();
  if (!cu || code_of(result).default_error_condition().category() != category())
    return false;  // weir knows this result, and it is not sticky
  CUcontext current = nullptr;
  if (cu->CtxGetCurrent(&current) != CUDA_SUCCESS || !current) return false;
  const auto asked = [&] {
    std::size_t free = 0, total = 0;
    return cu->MemGetInfo(&free, &total);
  };
  return asked() == result && asked() == result;
}

bool stops_work(CUresult result) noexcept {
  const StickyError* const known = find_sticky(result);
  return known ? known->stops_work : is_last_answer(result);
}

}  // namespace weir::cuda
