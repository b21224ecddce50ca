// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the elements of an array are, and of which type. Next, read tensor.hpp.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "weir/export.hpp"

namespace weir {

/// Element type, with DLPack's codes: `code` 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool, 7+ small floats.
struct WEIR_API DType {
  std::uint8_t code = 1;    ///< DLDataTypeCode
  std::uint8_t bits = 8;    ///< of one lane
  std::uint16_t lanes = 1;  ///< more than 1 for vectors
  [[nodiscard]] std::size_t bytes() const noexcept { return (std::size_t{bits} * lanes + 7) / 8; }  ///< of one element
  [[nodiscard]] std::string to_string() const;  ///< "float32", "uint8x4"
  friend bool operator==(const DType&, const DType&) = default;  ///< whether all three are equal
};

/// Element type of so many bits: signed and unsigned integers, floating-point numbers (`bf16` is bfloat16), complex
/// numbers (both parts together), and truth values of one byte.
///@{
inline constexpr DType i8{0, 8, 1}, i16{0, 16, 1}, i32{0, 32, 1}, i64{0, 64, 1};
inline constexpr DType u8{1, 8, 1}, u16{1, 16, 1}, u32{1, 32, 1}, u64{1, 64, 1};
inline constexpr DType f16{2, 16, 1}, f32{2, 32, 1}, f64{2, 64, 1}, bf16{4, 16, 1};
inline constexpr DType c64{5, 64, 1}, c128{5, 128, 1}, bool8{6, 8, 1};
///@}

/// The element type for values of the C++ type `T`: an integer type, `std::byte`, `float`, `double`, a complex number
/// of these, or `bool`.
template <class T>
inline constexpr DType dtype_of = [] {
  constexpr std::uint8_t bits = 8 * sizeof(T);
  if constexpr (std::is_same_v<T, bool>) {
    return bool8;
  } else if constexpr (std::is_same_v<T, std::byte>) {
    return u8;
  } else if constexpr (std::is_integral_v<T>) {
    return DType{std::is_signed_v<T> ? i8.code : u8.code, bits, 1};
  } else if constexpr (std::is_floating_point_v<T> && sizeof(T) <= sizeof(double)) {
    return DType{f32.code, bits, 1};
  } else {
    static_assert(requires(T number) { requires sizeof(T) == 2 * sizeof(number.real()); number.imag(); },
                  "no element type for this C++ type");
    return DType{c64.code, bits, 1};
  }
}();

/// Positions along one dimension, as Python's slices are: every `step`-th one from `begin` on, before `end` is reached.
/// A negative position counts from the end of the dimension, and one outside of it is moved to its border. A negative
/// step goes backwards. Without `begin` or `end` the slice begins or ends at the border of the dimension.
struct Slice {
  std::optional<std::int64_t> begin;  ///< the first position
  std::optional<std::int64_t> end;    ///< not taken itself
  std::int64_t step = 1;              ///< not 0
};

/// Where the elements of an array are in its buffer. `strides` has one entry per dimension, counted in elements.
struct WEIR_API Layout {
  DType dtype;                        ///< of every element
  std::vector<std::int64_t> shape;    ///< number of elements along each dimension
  std::vector<std::int64_t> strides;  ///< may be negative or 0
  std::size_t byte_offset = 0;  ///< of element 0 from the beginning of the buffer

  /// Return the row-major layout without gaps. Throws invalid_argument for a negative extent, and when the number of
  /// elements overflows 64 bits.
  [[nodiscard]] static Layout compact(DType dtype, std::vector<std::int64_t> shape, std::size_t byte_offset = 0);
  /// Return the layout of the first `shape[i]` positions along each dimension `i` of a row-major array of
  /// `padded_shape`. Memory for the whole padded array has
  /// `compact(dtype, padded_shape, byte_offset).bytes_needed()` bytes. Throws invalid_argument when the two shapes have
  /// different numbers of dimensions, for a negative extent, when an extent is larger than its padded one, and when the
  /// bytes of the padded array overflow 64 bits.
  [[nodiscard]] static Layout padded(DType dtype, std::vector<std::int64_t> shape,
                                     const std::vector<std::int64_t>& padded_shape, std::size_t byte_offset = 0);
  /// Return the padded shape of a layout that `padded` could have made; nothing for every other layout. It follows from
  /// the strides, so slices and imported tensors have one, too. Its first extent is that of `shape`, because no stride
  /// depends on what follows the last row. Throws what bytes_needed() throws.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> padded_shape() const;
  [[nodiscard]] std::int64_t elements() const;      ///< product of the shape; 1 for no dimensions
  [[nodiscard]] bool is_compact() const noexcept;   ///< row-major without gaps

  /// Return the layout of the elements at these positions along `dimension`. Its number of them is rounded up: of 5
  /// elements every second is 3. Throws invalid_argument for a step of 0 and for a dimension that there is not.
  [[nodiscard]] Layout slice(std::size_t dimension, const Slice& range) const;
  /// Return the layout of the elements at `index` of `dimension`, without that dimension. A negative index counts from
  /// the end. Throws invalid_argument when there is no such index or dimension.
  [[nodiscard]] Layout at(std::size_t dimension, std::int64_t index) const;
  /// Return the same elements with the dimensions in another order: dimension `i` is what was `dimensions[i]`. Throws
  /// invalid_argument unless each dimension is named once.
  [[nodiscard]] Layout permute(const std::vector<std::size_t>& dimensions) const;
  /// Return the same elements with the dimensions in reverse order.
  [[nodiscard]] Layout transpose() const;
  /// Return the same elements, in the same row-major order, with another shape. One extent may be -1: it follows from
  /// the others. Throws invalid_argument for another number of elements, and where the elements would have to be moved.
  [[nodiscard]] Layout reshape(std::vector<std::int64_t> shape) const;

  /// Return the bytes from the beginning of the buffer to the end of the last element; 0 when there are no elements.
  /// Throws invalid_argument when the layout reaches below byte 0 or overflows.
  [[nodiscard]] std::size_t bytes_needed() const;
};

}  // namespace weir
