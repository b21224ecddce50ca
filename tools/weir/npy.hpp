// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files of NumPy, format 1.0 to 3.0: the header, which says what the bytes behind it are.

#include <cstddef>
#include <istream>
#include <optional>
#include <string>
#include <string_view>

#include "weir/layout.hpp"

namespace weir::cli {

/// Read the header, so that the stream stands at the first element. The elements lie without gaps, in C or in Fortran
/// order. Throws invalid_argument for what is no such file, and for types that weir does not have.
[[nodiscard]] Layout read_npy_header(std::istream& file);

/// Return the header of a file of elements in C order. Throws unsupported for types that NumPy's files do not have.
[[nodiscard]] std::string npy_header(const Layout& layout);

/// Return the type of that name, as DType::to_string writes it.
[[nodiscard]] std::optional<DType> dtype_named(std::string_view name);

}  // namespace weir::cli
