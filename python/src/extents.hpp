// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where elements are: extents, indices and slices.

#include <vector>

#include "integers.hpp"

namespace weir::python {

/// Return an integer, or all of a sequence of them. Throws TypeError.
std::vector<std::int64_t> extents(nb::handle object, const char* what);
/// Return the part of a tensor that NumPy's basic indexing names: integers, slices, `...` and None. Throws IndexError,
/// and TypeError for anything else.
Tensor subscript(const Tensor& tensor, nb::handle key);

}  // namespace weir::python
