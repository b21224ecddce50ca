// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where elements are: extents, indices and slices.

#include <vector>

#include "integers.hpp"

namespace weir::python {

/// Return an integer, or all of a sequence of them. Throws TypeError.
std::vector<std::int64_t> extents(nb::handle object, const char* what);
/// Return extents as Python has them.
nb::tuple tuple_of(const std::vector<std::int64_t>& values);
/// Return the layout for `shape`, padded to `padded_shape` unless that is None. Throws TypeError and ValueError.
Layout layout_of(DType dtype, nb::handle shape, nb::handle padded_shape, std::size_t byte_offset);
/// Return the bytes that the whole padded array reaches to, padding behind the last row included.
std::size_t padded_bytes(const Layout& layout, nb::handle padded_shape);
/// Return the part of a tensor that NumPy's basic indexing names: integers, slices, `...` and None. Throws IndexError,
/// and TypeError for anything else.
Tensor subscript(const Tensor& tensor, nb::handle key);

}  // namespace weir::python
