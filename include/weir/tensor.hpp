// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Buffer seen as an array with an element type, a shape and strides, as DLPack exchanges it. Next, read dlpack.hpp.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "weir/buffer.hpp"
#include "weir/export.hpp"
#include "weir/fwd.hpp"

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

/// Where the elements of an array are in its buffer. `strides` has one entry per dimension, counted in elements.
struct WEIR_API Layout {
  DType dtype;                        ///< of every element
  std::vector<std::int64_t> shape;    ///< number of elements along each dimension
  std::vector<std::int64_t> strides;  ///< may be negative or 0
  std::size_t byte_offset = 0;  ///< of element 0 from the beginning of the buffer

  /// Return the row-major layout without gaps. Throws invalid_argument for a negative extent, and when the number of
  /// elements overflows 64 bits.
  [[nodiscard]] static Layout compact(DType dtype, std::vector<std::int64_t> shape, std::size_t byte_offset = 0);
  [[nodiscard]] std::int64_t elements() const;      ///< product of the shape; 1 for no dimensions
  [[nodiscard]] bool is_compact() const noexcept;   ///< row-major without gaps
  /// Return the bytes from the beginning of the buffer to the end of the last element; 0 when there are no elements.
  /// Throws invalid_argument when the layout reaches below byte 0 or overflows.
  [[nodiscard]] std::size_t bytes_needed() const;
};

/// Options of an export. The defaults export the tensor as it is, without a copy.
struct DlpackOptions {
  bool read_only = false;  ///< mark the tensor read-only; consumers of DLPack before 1.0 then cannot take it
};

/// Owner of a DLPack tensor that nobody has consumed yet. Hand the tensor over with release(); the consumer then calls
/// its deleter.
class WEIR_API ManagedTensor {
 public:
  /// Take over `tensor`, which may be null.
  explicit ManagedTensor(DLManagedTensorVersioned* tensor) noexcept : tensor_(tensor) {}
  /// Take over the tensor of `other`, which is empty afterwards.
  ManagedTensor(ManagedTensor&& other) noexcept;
  /// Exchange the tensors of the two.
  ManagedTensor& operator=(ManagedTensor&& other) noexcept;
  /// Call the deleter of a tensor that was not handed over.
  ~ManagedTensor();
  [[nodiscard]] DLManagedTensorVersioned* get() const noexcept { return tensor_; }  ///< null once it is handed over
  /// Hand the tensor over: from now on the caller sees to its deleter.
  [[nodiscard]] DLManagedTensorVersioned* release() noexcept;
  /// Hand the tensor over in the unversioned struct of DLPack before 1.0. Throws incompatible for read-only tensors,
  /// which that struct cannot express.
  [[nodiscard]] DLManagedTensor* release_legacy();

 private:
  DLManagedTensorVersioned* tensor_ = nullptr;
};

/// Array over a Buffer, whose ownership it shares. A Tensor is a value that is as cheap as its layout.
class WEIR_API Tensor {
 public:
  /// Throws invalid_argument when `layout` does not fit `buffer`.
  Tensor(Buffer buffer, Layout layout);
  /// Return a second tensor over the same memory. Throws closed.
  [[nodiscard]] Tensor share() const;
  [[nodiscard]] const Buffer& buffer() const noexcept { return buffer_; }  ///< an owner of the memory
  [[nodiscard]] Buffer& buffer() noexcept { return buffer_; }  ///< to write the memory, or to close the tensor
  [[nodiscard]] const Layout& layout() const noexcept { return layout_; }  ///< of the elements in buffer()

  /// Export the tensor without a copy. `stream` is the *consumer's* stream: its later work is ordered after every use
  /// of the memory so far (Buffer::order_after_uses). The memory's reuse is ordered after the work that is on `stream`
  /// when the deleter runs. The exported tensor owns the memory until its deleter runs, on any thread. Its DLPack
  /// device is that of the memory; see KindInfo.
  [[nodiscard]] ManagedTensor to_dlpack(const Stream& stream, const DlpackOptions& options = {}) const;

 private:
  Buffer buffer_;
  Layout layout_;
};

}  // namespace weir
