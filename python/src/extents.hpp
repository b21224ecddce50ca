// SPDX-License-Identifier: Apache-2.0
#pragma once
// Integers of Python that say where elements are: extents, indices and slices.

#include <vector>

#include "bind.hpp"

namespace weir::python {

/// Return the value of an int, or of an object that stands for one (`__index__`), such as numpy.int64. Throws TypeError.
std::int64_t integer(nb::handle object, const char* what);
/// Return one such integer, or all of a sequence of them.
std::vector<std::int64_t> extents(nb::handle object, const char* what);
/// Return the part of a tensor that NumPy's basic indexing names: integers, slices, `...` and None. Throws IndexError,
/// and TypeError for anything else.
Tensor subscript(const Tensor& tensor, nb::handle key);

}  // namespace weir::python
