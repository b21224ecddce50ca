// SPDX-License-Identifier: Apache-2.0
#pragma once
// Names of element types.

#include "bind.hpp"

namespace weir::python {

/// Return the type that a name ("float32", "bool", "float8_e4m3fn", "uint8x4") or a dtype of NumPy, PyTorch or JAX
/// means. Throws ValueError, which lists the names that there are.
DType dtype_of(nb::handle dtype);
/// The same, but nothing where there is no such type.
std::optional<DType> known_dtype(nb::handle dtype);
std::string name_of(DType dtype);

/// Return the format string of PEP 3118. Throws BufferError for types for which PEP 3118 has no letter.
std::string buffer_format(DType dtype);
bool has_buffer_format(DType dtype);

}  // namespace weir::python
