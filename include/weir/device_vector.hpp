// SPDX-License-Identifier: Apache-2.0
#pragma once
// A typed array that grows, over any resource. First, read buffer.hpp.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "weir/buffer.hpp"
#include "weir/export.hpp"
#include "weir/memory_resource.hpp"
#include "weir/stream.hpp"
#include "weir/tensor.hpp"

namespace weir {

namespace detail {

/// What DeviceVector does, whatever its type is. Positions and sizes are in bytes; `element` is the size of one, for
/// messages.
class WEIR_API VectorMemory {
 public:
  VectorMemory(ResourcePtr resource, std::size_t bytes, std::size_t element, const Stream& stream);
  [[nodiscard]] const Buffer& buffer() const noexcept { return buffer_; }
  [[nodiscard]] Buffer& buffer() noexcept { return buffer_; }
  [[nodiscard]] std::size_t size() const noexcept { return buffer_.is_closed() ? 0 : size_; }
  void reserve(std::size_t bytes, const Stream& stream);
  void resize(std::size_t bytes, const Stream& stream);
  void shrink_to_fit(const Stream& stream);
  void push(std::span<const std::byte> bytes, const Stream& stream);
  void write(std::span<const std::byte> bytes, std::size_t offset, const Stream& stream);
  void read(std::span<std::byte> bytes, std::size_t offset, const Stream& stream) const;
  void read_and_wait(std::span<std::byte> bytes, std::size_t offset, const Stream& stream) const;

  /// Return `count` times `element`, or the largest number if that overflows, which no resource has.
  [[nodiscard]] static std::size_t bytes_of(std::size_t count, std::size_t element) noexcept;

 private:
  [[nodiscard]] Buffer moved_to(Buffer memory, std::size_t bytes, const Stream& stream) const;
  void take(Buffer memory, const Stream& stream);
  void check_open() const;
  void check_range(std::size_t offset, std::size_t bytes) const;

  Buffer buffer_;
  std::size_t size_ = 0;
  std::size_t element_ = 1;
};

}  // namespace detail

/// Array of `T` whose size changes in stream order. The elements may be in memory of any kind on any device, and are
/// made of bytes alone: no constructor runs, and new elements have no value until something writes them. Move-only.
///
/// Every call takes place in order of the stream that it names, and does not wait. As with Buffer, calls on different
/// streams need waits between them. Growth allocates new memory on that stream and copies the elements; the old memory
/// is reused after every recorded use. Views, and addresses of elements, keep to the memory that they were made for. A
/// call that throws has changed nothing, but for copy_from and set_element: when memory runs out or a driver refuses a
/// part of the copy, they may have written some of the elements that they name. After close(), everything but the
/// observers throws closed.
template <class T>
requires std::is_trivially_copyable_v<T>
class DeviceVector {
 public:
  using value_type = T;  ///< of the elements

  /// Allocate `size` elements from `resource`. Throws invalid_argument when `resource` is null, OutOfMemory.
  DeviceVector(ResourcePtr resource, std::size_t size, const Stream& stream)
      : memory_(std::move(resource), bytes_of(size), sizeof(T), stream) {}
  /// Allocate as many elements as `values` has, and enqueue a copy of these, which have been read when this returns.
  DeviceVector(ResourcePtr resource, std::span<const T> values, const Stream& stream)
      : DeviceVector(std::move(resource), values.size(), stream) {
    copy_from(values, stream);
  }

  [[nodiscard]] std::size_t size() const noexcept { return memory_.size() / sizeof(T); }  ///< number of elements
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }                       ///< whether there is none
  /// Return how many elements there is memory for.
  [[nodiscard]] std::size_t capacity() const noexcept { return buffer().size() / sizeof(T); }
  /// Return the device address of the first element, for kernels; null where the memory has no address, and when there
  /// is no memory.
  [[nodiscard]] T* data() const noexcept {
    return reinterpret_cast<T*>(static_cast<std::uintptr_t>(buffer().device_address()));
  }
  /// Return the memory of capacity() elements.
  ///@{
  [[nodiscard]] const Buffer& buffer() const noexcept { return memory_.buffer(); }
  [[nodiscard]] Buffer& buffer() noexcept { return memory_.buffer(); }
  ///@}
  /// Return the elements as an array of one dimension, which owns the memory, too. For types that have a DType.
  [[nodiscard]] Tensor view() const { return buffer().view(dtype_of<T>, {static_cast<std::int64_t>(size())}); }

  /// Have memory for at least `capacity` elements.
  void reserve(std::size_t capacity, const Stream& stream) { memory_.reserve(bytes_of(capacity), stream); }
  /// Have `size` elements. The first ones stay. Memory is allocated only when there is too little, and then for exactly
  /// `size` elements.
  void resize(std::size_t size, const Stream& stream) { memory_.resize(bytes_of(size), stream); }
  /// Have memory for no more elements than there are.
  void shrink_to_fit(const Stream& stream) { memory_.shrink_to_fit(stream); }
  /// Have no elements, and keep the memory.
  void clear(const Stream& stream) { resize(0, stream); }

  /// Add elements at the end. `values` have been read when this returns. Where there is too little memory, twice as
  /// much is allocated, or just enough if there is no more.
  void push(std::span<const T> values, const Stream& stream) { memory_.push(std::as_bytes(values), stream); }
  /// Enqueue a copy of `values` to the elements from `first` on. They have been read when this returns. Throws
  /// invalid_argument when there are fewer elements.
  void copy_from(std::span<const T> values, const Stream& stream, std::size_t first = 0) {
    memory_.write(std::as_bytes(values), bytes_of(first), stream);
  }
  /// Enqueue a copy of the elements from `first` on to `values` in host memory, which must stay valid until `stream`
  /// has passed this point. Throws invalid_argument when there are fewer elements.
  void copy_to(std::span<T> values, const Stream& stream, std::size_t first = 0) const {
    memory_.read(std::as_writable_bytes(values), bytes_of(first), stream);
  }
  /// Enqueue a write of one element. Throws invalid_argument when there is no such element.
  void set_element(std::size_t index, const T& value, const Stream& stream) {
    copy_from(std::span(&value, 1), stream, index);
  }
  /// Return one element as it is after everything on `stream` so far. Blocks until then. Throws invalid_argument when
  /// there is no such element, device_lost.
  [[nodiscard]] T wait_for_element(std::size_t index, const Stream& stream) const {
    std::array<std::byte, sizeof(T)> bytes;
    memory_.read_and_wait(bytes, bytes_of(index), stream);
    return std::bit_cast<T>(bytes);
  }

  /// Give the memory back, as Buffer::close does.
  void close() noexcept { buffer().close(); }
  /// The same, ordered also after everything on `stream` so far.
  void close(const Stream& stream) { buffer().close(stream); }

 private:
  [[nodiscard]] static std::size_t bytes_of(std::size_t count) noexcept {
    return detail::VectorMemory::bytes_of(count, sizeof(T));
  }

  detail::VectorMemory memory_;
};

}  // namespace weir
