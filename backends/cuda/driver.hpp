// SPDX-License-Identifier: Apache-2.0
#pragma once
// The CUDA driver, loaded at run time. Nothing of CUDA is linked, so a binary with this backend runs without a GPU.

#include <cuda.h>

#include <string>

namespace weir::cuda {

/// Oldest driver that this backend works with: stream ids came with 12.0.
inline constexpr int oldest_driver = 12000;

/// Forms of functions that newer headers declare otherwise.
namespace former {
using MemPrefetchAsync = CUresult(CUDAAPI*)(CUdeviceptr, std::size_t, CUdevice, CUstream);
}

/// The driver's functions: `driver().MemAlloc` is cuMemAlloc.
struct Driver {
#define WEIR_CUDA_SYMBOL(name, version) decltype(&::cu##name) name = nullptr;
#include "symbols.inc"
#undef WEIR_CUDA_SYMBOL
  former::MemPrefetchAsync MemPrefetchAsync = nullptr;
  decltype(&::cuStreamGetGreenCtx) StreamGetGreenCtx = nullptr;  ///< null before 12.4
  int version = 0;  ///< 1000 × major + 10 × minor, of the CUDA interface
};

/// Load and initialise the driver, once: `WEIR_CUDA_LIBRARY` or libcuda.so.1. Null with one line in `reason` when there
/// is none, it is too old, or it refuses.
const Driver* load_driver(std::string& reason);

/// The loaded driver. Only after load_driver succeeded.
const Driver& driver() noexcept;
/// The same, or null: for places that may run without one.
const Driver* driver_if_loaded() noexcept;

/// "CUDA driver 13.0 (580.65.06)"; the kernel module's version is left out where it cannot be read.
std::string describe_driver();

/// Whether this process was forked from one that had loaded the driver. CUDA does not work in such a child.
bool forked_after_load() noexcept;

}  // namespace weir::cuda
