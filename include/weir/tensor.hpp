// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Buffer seen as an array, as DLPack exchanges it. First, read layout.hpp; next, dlpack.hpp.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "weir/buffer.hpp"
#include "weir/export.hpp"
#include "weir/fwd.hpp"
#include "weir/layout.hpp"
#include "weir/managed_tensor.hpp"

namespace weir {

/// Options of a fill.
struct FillOptions {
  /// Write the bytes between the elements, too, from the first element to the end of the last one. That is one fill of
  /// one range, which is faster than a fill of many rows. What is before and behind the elements stays as it is.
  bool over_gaps = false;
};

/// Array over a Buffer, whose ownership it shares. A Tensor is a value that is as cheap as its layout.
class WEIR_API Tensor {
 public:
  /// Throws invalid_argument when `layout` does not fit `buffer`. One of no elements begins in it or at its end. Throws
  /// closed when `buffer` is.
  Tensor(Buffer buffer, Layout layout);
  /// Return a second tensor over the same memory. Throws closed.
  [[nodiscard]] Tensor share() const;
  [[nodiscard]] const Buffer& buffer() const noexcept { return buffer_; }  ///< an owner of the memory
  [[nodiscard]] Buffer& buffer() noexcept { return buffer_; }  ///< to write the memory, or to close the tensor
  [[nodiscard]] const Layout& layout() const noexcept { return layout_; }  ///< of the elements in buffer()

  /// Return a tensor over the elements of this one that Layout::slice, at, permute, transpose or reshape name, in the
  /// same memory. Throws what they throw, and closed.
  ///@{
  [[nodiscard]] Tensor slice(std::size_t dimension, const Slice& range) const;
  [[nodiscard]] Tensor at(std::size_t dimension, std::int64_t index) const;
  [[nodiscard]] Tensor permute(const std::vector<std::size_t>& dimensions) const;
  [[nodiscard]] Tensor transpose() const;
  [[nodiscard]] Tensor reshape(std::vector<std::int64_t> shape) const;
  ///@}

  /// Enqueue a copy of all elements to those of `dst`, which must have the same shape and element type. The two may be
  /// in any memories, and may lie in any way, as long as no element of `dst` shares memory with another element of
  /// `dst` or of this tensor. Ordered and kept alive like Buffer::copy_to. `dst` is const because it is a view, like a
  /// span. Throws invalid_argument when the two do not fit each other or overlap, permission_denied when `dst` is
  /// read-only, closed.
  void copy_to(const Tensor& dst, const Stream& stream) const;
  /// Return a row-major copy without gaps, in memory from the same resource, allocated and written in order of
  /// `stream`.
  [[nodiscard]] Tensor copy_to(const Stream& stream) const;
  /// Enqueue a copy of all elements of `src` to those of this tensor: `src.copy_to(*this, stream)`.
  void copy_from(const Tensor& src, const Stream& stream) const;

  /// Enqueue a fill of all elements with `value`. No byte between them is written, unless the options say so, and no
  /// byte of the tensor is read by the host. Ordered and kept alive like Buffer::fill. The tensor may lie in any way, as
  /// long as elements share memory only along dimensions with a stride of 0. Throws invalid_argument when `T` is not
  /// the element type, and for other elements that share memory; permission_denied when the memory is read-only; closed.
  template <class T>
  void fill(const T& value, const Stream& stream, const FillOptions& options = {}) const {
    fill_typed(dtype_of<T>, std::as_bytes(std::span(&value, 1)), stream, options);
  }
  /// The same for elements of every type and size, also of those that C++ has no type for. `element` holds the bytes of
  /// one; throws invalid_argument when it has another size.
  void fill_pattern(std::span<const std::byte> element, const Stream& stream, const FillOptions& options = {}) const;
  /// The same with zero bytes.
  void zero(const Stream& stream, const FillOptions& options = {}) const;

  /// Return a tensor of the same shape and element type over new memory of `resource`, allocated in order of `stream`.
  /// It is padded as this tensor is (Layout::padded_shape), and its memory holds the whole padded array: that of some
  /// columns of a matrix has room for all columns. Where this tensor has no padded shape, the new one is row-major
  /// without gaps. Strides that no element takes do not count: a matrix of one row has no padding. No byte of it is
  /// written. Throws invalid_argument when `resource` is null, OutOfMemory, closed.
  [[nodiscard]] Tensor empty_like(const ResourcePtr& resource, const Stream& stream) const;
  /// The same in the host memory that copies from and to this tensor are fastest with (Device::staging_kind), made by
  /// the driver for this tensor alone. Making such memory is slow: keep it, or give empty_like a pool of that kind.
  [[nodiscard]] Tensor empty_like_host(const Stream& stream) const;

  /// Return all elements in host memory. The caller orders reads and writes through the span, with `Event::wait` or
  /// `Stream::synchronize`. Throws invalid_argument when `T` is not the element type, when the elements have gaps or
  /// are not aligned for `T`, and when the memory is read-only and `T` is not const; unsupported when the host cannot
  /// reach the memory; closed.
  template <class T>
  [[nodiscard]] std::span<T> span() const {
    using Element = std::remove_const_t<T>;
    return {reinterpret_cast<T*>(host_elements(dtype_of<Element>, alignof(Element), !std::is_const_v<T>)),
            static_cast<std::size_t>(layout_.elements())};
  }

  /// Export the tensor, without a copy unless `options` ask for one. `stream` is the *consumer's* stream: its later
  /// work is ordered after every use of the memory so far (Buffer::order_after_uses). The memory's reuse is ordered
  /// after the work that is on `stream` when the deleter runs. The exported tensor owns the memory until its deleter
  /// runs, on any thread. Without DlpackOptions::device it names the device of the memory; see KindInfo. Called on a
  /// tensor that ends anyway, it takes over its ownership. Throws incompatible when the memory cannot be shown as the
  /// options ask, unsupported for memory that DLPack cannot show, closed.
  ///@{
  [[nodiscard]] ManagedTensor to_dlpack(const Stream& stream, const DlpackOptions& options = {}) const&;
  [[nodiscard]] ManagedTensor to_dlpack(const Stream& stream, const DlpackOptions& options = {}) &&;
  ///@}
  /// Wait until every use of the memory so far is complete, and export the tensor to a consumer that knows no streams,
  /// like NumPy. It may use the memory until it calls the deleter; the reuse needs no more order. Otherwise like
  /// to_dlpack.
  [[nodiscard]] ManagedTensor to_dlpack_after_wait(const DlpackOptions& options = {}) const;
  /// Lend the tensor for a call, as memory of its own device or of `device`. Order is as with to_dlpack, but the caller
  /// says later with Buffer::use_on up to where `stream` used the memory. Throws incompatible for memory that is
  /// read-only, because a DLTensor cannot say so, and what to_dlpack throws.
  [[nodiscard]] BorrowedTensor lend_dlpack(const Stream& stream,
                                           std::optional<DlpackDevice> device = std::nullopt) const;

 private:
  void fill_typed(DType type, std::span<const std::byte> value, const Stream& stream, const FillOptions& options) const;
  [[nodiscard]] std::byte* host_elements(DType type, std::size_t alignment, bool writes) const;

  Buffer buffer_;
  Layout layout_;
};

}  // namespace weir
