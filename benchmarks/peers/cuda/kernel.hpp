// SPDX-License-Identifier: Apache-2.0
#pragma once
// A kernel to put between an allocation and its free.

#include <cuda.h>

namespace weir::bench {

/// Put a kernel of one thread on `stream` that computes for so many clocks of the device and then writes 8
/// bytes at `out`. The primary context of the first device must be current. Throws std::runtime_error where
/// the driver runs no kernels, as the modelled one of the tests does not.
void launch_busy_kernel(CUstream stream, CUdeviceptr out, unsigned long long clocks = 1'000'000);

}  // namespace weir::bench
