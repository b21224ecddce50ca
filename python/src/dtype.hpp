// SPDX-License-Identifier: Apache-2.0
#pragma once
// Names of element types.

#include "bind.hpp"

namespace weir::python {

/// From a name ("float32", "bool", "bfloat16") or a dtype of NumPy, PyTorch or JAX. Throws ValueError naming what there
/// is.
DType dtype_of(nb::handle dtype);
std::string name_of(DType dtype);

/// Format string of PEP 3118. Throws BufferError for types that it has no letter for.
std::string buffer_format(DType dtype);

}  // namespace weir::python
