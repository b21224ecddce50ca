// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Buffer seen as an array, as DLPack exchanges it. First, read layout.hpp; next, dlpack.hpp.

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "weir/buffer.hpp"
#include "weir/export.hpp"
#include "weir/fwd.hpp"
#include "weir/layout.hpp"

namespace weir {

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

  /// Export the tensor without a copy. `stream` is the *consumer's* stream: its later work is ordered after every use
  /// of the memory so far (Buffer::order_after_uses). The memory's reuse is ordered after the work that is on `stream`
  /// when the deleter runs. The exported tensor owns the memory until its deleter runs, on any thread. Its DLPack
  /// device is that of the memory; see KindInfo.
  [[nodiscard]] ManagedTensor to_dlpack(const Stream& stream, const DlpackOptions& options = {}) const;

 private:
  [[nodiscard]] std::byte* host_elements(DType type, std::size_t alignment, bool writes) const;

  Buffer buffer_;
  Layout layout_;
};

}  // namespace weir
