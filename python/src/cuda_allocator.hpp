// SPDX-License-Identifier: Apache-2.0
#pragma once
// CudaAllocator, and the functions by which PyTorch finds one.

#include "bind.hpp"

#if WEIR_HAS_CUDA
#include "weir/cuda.hpp"
#include "weir/interop/cuda_allocator.hpp"
#endif

namespace weir::python {

void bind_cuda_allocator(nb::module_& m);
void bind_torch_hooks(nb::module_& m);

}  // namespace weir::python
