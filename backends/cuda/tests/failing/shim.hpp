// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the driver in shim.cc exports besides the driver's functions, for who opened it.

#include <cstddef>

namespace weir::cuda_test::shim {

/// A call that failed. All null and 0 when none did.
struct Hit {
  const char* call;
  const char* code;
  std::size_t codes;
};

// failing_cuda_arm: count from now on, let the nth call fail with its `code` (modulo how many it has). 0: none fails.
using Arm = void (*)(std::size_t nth, std::size_t code);
// failing_cuda_arm_fault: let the device fault at the nth call. Only over the modelled driver.
using ArmFault = void (*)(std::size_t nth);
// failing_cuda_disarm: fail nothing, and say what failed.
using Disarm = void (*)(Hit* out);
// failing_cuda_calls: those that this thread made so far, whether counting or not.
using Calls = std::size_t (*)();
// failing_cuda_around: functions to run before and after each call, on its thread.
using Around = void (*)(void (*enter)(), void (*leave)());
// failing_cuda_alive: objects that exist, of one of `sorts`, by its index.
using Alive = long (*)(std::size_t sort);

/// Objects that are counted, with the calls that make and that end them.
struct Sort {
  const char* name;
  const char* makers[4];
  const char* ends[3];
};
inline constexpr Sort sorts[] = {
    {"device memory",
     {"cuMemAlloc", "cuMemAllocManaged", "cuMemAllocFromPoolAsync", "cuExternalMemoryGetMappedBuffer"},
     {"cuMemFree", "cuMemFreeAsync"}},
    {"page-locked memory", {"cuMemHostAlloc"}, {"cuMemFreeHost"}},
    {"physical handles", {"cuMemCreate", "cuMemImportFromShareableHandle"}, {"cuMemRelease"}},
    {"address ranges", {"cuMemAddressReserve"}, {"cuMemAddressFree"}},
    {"mappings", {"cuMemMap"}, {"cuMemUnmap"}},
    {"pools", {"cuMemPoolCreate"}, {"cuMemPoolDestroy"}},
    {"streams", {"cuStreamCreate"}, {"cuStreamDestroy"}},
    {"events", {"cuEventCreate"}, {}},
    {"imports", {"cuImportExternalMemory"}, {"cuDestroyExternalMemory"}},
};
inline constexpr std::size_t events = 7;  // kept for use again, so that their number may grow a little

}  // namespace weir::cuda_test::shim
