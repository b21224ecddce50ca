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
#include "weir/fwd.hpp"

namespace weir {

/// Element type, with DLPack's codes: `code` 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool, 7+ small floats.
struct DType {
  std::uint8_t code = 1;
  std::uint8_t bits = 8;
  std::uint16_t lanes = 1;
  [[nodiscard]] std::size_t bytes() const noexcept { return (std::size_t{bits} * lanes + 7) / 8; }
  [[nodiscard]] std::string to_string() const;  ///< "float32", "uint8x4"
  friend bool operator==(const DType&, const DType&) = default;
};

inline constexpr DType i8{0, 8, 1}, i16{0, 16, 1}, i32{0, 32, 1}, i64{0, 64, 1};
inline constexpr DType u8{1, 8, 1}, u16{1, 16, 1}, u32{1, 32, 1}, u64{1, 64, 1};
inline constexpr DType f16{2, 16, 1}, f32{2, 32, 1}, f64{2, 64, 1}, bf16{4, 16, 1};
inline constexpr DType c64{5, 64, 1}, c128{5, 128, 1}, bool8{6, 8, 1};

/// Where the elements of an array are in its buffer. `strides` has one entry per dimension, counted in elements.
struct Layout {
  DType dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
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
class ManagedTensor {
 public:
  explicit ManagedTensor(DLManagedTensorVersioned* tensor) noexcept : tensor_(tensor) {}
  ManagedTensor(ManagedTensor&& other) noexcept;
  ManagedTensor& operator=(ManagedTensor&& other) noexcept;
  ~ManagedTensor();
  [[nodiscard]] DLManagedTensorVersioned* get() const noexcept { return tensor_; }
  [[nodiscard]] DLManagedTensorVersioned* release() noexcept;
  /// Hand the tensor over in the unversioned struct of DLPack before 1.0. Throws incompatible for read-only tensors,
  /// which that struct cannot express.
  [[nodiscard]] DLManagedTensor* release_legacy();

 private:
  DLManagedTensorVersioned* tensor_ = nullptr;
};

/// Array over a Buffer, whose ownership it shares. A Tensor is a value that is as cheap as its layout.
class Tensor {
 public:
  /// Throws invalid_argument when `layout` does not fit `buffer`.
  Tensor(Buffer buffer, Layout layout);
  [[nodiscard]] Tensor share() const;
  [[nodiscard]] const Buffer& buffer() const noexcept { return buffer_; }
  [[nodiscard]] Buffer& buffer() noexcept { return buffer_; }
  [[nodiscard]] const Layout& layout() const noexcept { return layout_; }

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
