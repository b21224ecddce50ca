// SPDX-License-Identifier: Apache-2.0
#pragma once
// With what each driver function is made to fail: codes that its documentation lists and that a program can meet.

#include <cuda.h>

#include <span>
#include <string_view>

namespace weir::cuda_test::shim {

struct Code {
  CUresult result;
  const char* name;
};

#define CODE(name) \
  { CUDA_ERROR_##name, "CUDA_ERROR_" #name }
inline constexpr Code making[] = {CODE(OUT_OF_MEMORY), CODE(UNKNOWN)};
inline constexpr Code mapping[] = {CODE(OUT_OF_MEMORY), CODE(INVALID_VALUE), CODE(UNKNOWN)};
inline constexpr Code sharing[] = {CODE(OPERATING_SYSTEM), CODE(INVALID_VALUE), CODE(OUT_OF_MEMORY)};
inline constexpr Code working[] = {CODE(OUT_OF_MEMORY), CODE(UNKNOWN)};
inline constexpr Code ending[] = {CODE(INVALID_VALUE), CODE(UNKNOWN)};
inline constexpr Code asking[] = {CODE(INVALID_VALUE)};
inline constexpr Code listing[] = {CODE(INVALID_DEVICE)};
inline constexpr Code current[] = {CODE(INVALID_CONTEXT)};
inline constexpr Code starting[] = {CODE(NO_DEVICE), CODE(SYSTEM_DRIVER_MISMATCH), CODE(UNKNOWN)};
#undef CODE

inline std::span<const Code> codes_of(std::string_view call) {
  const auto begins = [&](std::string_view text) { return call.substr(0, text.size()) == text; };
  if (call == "cuInit") return starting;
  if (call == "cuMemGetInfo" || call == "cuMemGetAddressRange" || begins("cuMemGetAllocation")) return asking;
  if (begins("cuCtx")) return current;
  if (begins("cuDevicePrimary") || call == "cuStreamCreate" || call == "cuEventCreate" || call == "cuMemPoolCreate")
    return making;
  if (begins("cuPointer")) return working;  // an invalid value is the answer for memory that is not CUDA's
  if (begins("cuDevice")) return listing;
  if (begins("cuThread") || begins("cuStreamGet")) return asking;
  if (begins("cuMemAlloc") || call == "cuMemHostAlloc" || call == "cuMemCreate" || call == "cuMemAddressReserve")
    return making;
  if (call == "cuMemMap" || call == "cuMemSetAccess") return mapping;
  if (begins("cuMemExport") || begins("cuMemImport")) return sharing;
  if (begins("cuMemcpy") || begins("cuMemset") || begins("cuMemPrefetch")) return working;
  if (begins("cuMem")) return ending;  // what is left: frees, releases, attributes of pools
  if (call == "cuStreamDestroy") return ending;
  return working;  // waits, records, queries, host functions
}

}  // namespace weir::cuda_test::shim
