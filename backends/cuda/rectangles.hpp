// SPDX-License-Identifier: Apache-2.0
#pragma once
// A region copy in terms of the driver's copies of rectangles.

#include <cuda.h>

#include <functional>

#include "weir/spi/region.hpp"

namespace weir::cuda {

/// Call `copy` for rectangles, or stacks of them, that have all rows between them. They are as few as the region's own
/// dimensions give: where no two dimensions suit the driver, there is one for each row. `dst` and `src` are the
/// addresses of the first row.
void for_each_rectangle(CUdeviceptr dst, CUdeviceptr src, const spi::Region& region,
                        const std::function<void(const CUDA_MEMCPY3D&)>& copy);

}  // namespace weir::cuda
