// SPDX-License-Identifier: Apache-2.0
#pragma once
// The values that fill memory.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bind.hpp"

namespace weir::python {

/// Bytes that are repeated: the low `bytes` bytes of `value`.
struct Pattern {
  std::uint64_t value;
  std::size_t bytes;  // 1, 2, 4 or 8
};

/// Return the pattern of a Python value.
///
/// * With `dtype`: one element of that type. Types that Python has no numbers for take the bytes of one, or a scalar.
/// * bytes, bytearray and memoryview: these bytes. NumPy's scalars: those of their own type, unless `width` is given.
/// * An int or bool has `width` bytes, 1 without a width. A float is a float16, float32 or float64, the last without a
///   width.
///
/// Throws TypeError for other objects, ValueError for a value that does not fit and for another number of bytes.
Pattern pattern_of(nb::handle value, nb::handle width, nb::handle dtype);

/// Return the bytes of one element of `type`, of any size: from a number that fits, a scalar of NumPy, or the bytes
/// themselves. Throws TypeError for other objects, ValueError for what does not fit.
std::vector<std::byte> element_of(nb::handle value, DType type);

}  // namespace weir::python
