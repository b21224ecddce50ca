// SPDX-License-Identifier: Apache-2.0
#pragma once
// The CUDA driver, loaded at run time. Nothing of CUDA is linked, so a binary with this backend runs without a GPU.

#include <cuda.h>

#include <string>

namespace weir::cuda {

/// The oldest driver that this backend works with: stream ids came with 12.0.
inline constexpr int oldest_driver = 12000;

/// Earlier forms of functions that newer headers declare differently.
namespace former {
using MemPrefetchAsync = CUresult(CUDAAPI*)(CUdeviceptr, std::size_t, CUdevice, CUstream);
using StreamGetCaptureInfo = CUresult(CUDAAPI*)(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*,
                                                const CUgraphNode**, std::size_t*);
}  // namespace former

/// The driver's functions: `driver().MemAlloc` is cuMemAlloc.
struct Driver {
#define WEIR_CUDA_SYMBOL(name, version) decltype(&::cu##name) name = nullptr;
#include "symbols.inc"
#undef WEIR_CUDA_SYMBOL
  former::MemPrefetchAsync MemPrefetchAsync = nullptr;
  former::StreamGetCaptureInfo StreamGetCaptureInfo = nullptr;
  decltype(&::cuStreamGetGreenCtx) StreamGetGreenCtx = nullptr;  ///< null before 12.4
  decltype(&::cuCtxRecordEvent) CtxRecordEvent = nullptr;        ///< null before 12.5
  int version = 0;  ///< of the CUDA interface: 1000 × major + 10 × minor
};

/// Load and initialise the driver, once. The library is `WEIR_CUDA_LIBRARY` or libcuda.so.1. Returns null, with one
/// line in `reason`, when there is no driver, when it is too old, or when it refuses.
const Driver* load_driver(std::string& reason);

/// Return the loaded driver. Call this only after load_driver succeeded.
const Driver& driver() noexcept;
/// Return the loaded driver, or null when there is none. For code that may run without a driver.
const Driver* driver_if_loaded() noexcept;

/// Return text such as "CUDA driver 13.0 (580.65.06)". The kernel module's version is left out where it cannot be read.
std::string describe_driver();

/// Return whether this process was forked from one that had loaded the driver. CUDA does not work in such a child.
bool forked_after_load() noexcept;

}  // namespace weir::cuda
