// SPDX-License-Identifier: Apache-2.0
#pragma once
// Device memory with a copy of it on the host, brought in step by two calls. First, read buffer.hpp.

#include <cstddef>
#include <span>
#include <type_traits>

#include "weir/buffer.hpp"
#include "weir/export.hpp"
#include "weir/stream.hpp"

namespace weir {

/// A buffer and host memory of the same size beside it. Move-only, and owns both.
///
/// Where the host reaches the buffer's memory itself at full speed, there is no second memory: both sides are one, and
/// `is_one_memory()` says so. A write of the host is then seen by the device at once and the other way round, so the
/// host must not write while work on the device uses the memory. The calls are the same in both cases: a program that
/// calls sync_to_device() after the host wrote, sync_to_host() before it reads, and waits for the latter, is right in
/// both, also where the host's side is memory that is not coherent.
class WEIR_API HostMirror {
 public:
  /// Take over `device`, and allocate host memory of the same size in order of `stream`, of the kind that copies with
  /// the buffer's device are fastest with (Device::staging_kind). Nothing is copied. No memory is allocated, and both
  /// sides are one, when `device` is in memory that is coherent, cached and not only for uploads: pageable, shared,
  /// pinned, managed or readback. Throws closed, invalid_argument for memory that is read-only, OutOfMemory; then
  /// `device` is as it was.
  HostMirror(Buffer&& device, const Stream& stream);
  /// Take over both. They stay two memories, whatever they are. Throws closed; invalid_argument when their sizes
  /// differ, when they are the same memory or overlap, when the host cannot reach `host`, or when either is read-only.
  /// Then both are as they were.
  HostMirror(Buffer&& device, Buffer&& host);

  [[nodiscard]] const Buffer& device() const noexcept { return device_; }     ///< for kernels, copies and views
  [[nodiscard]] Buffer& device() noexcept { return device_; }                 ///< to write the device's side
  [[nodiscard]] const Buffer& host() const noexcept { return host_; }         ///< what span() shows
  [[nodiscard]] std::size_t size() const noexcept { return device_.size(); }  ///< bytes of each side
  [[nodiscard]] bool is_one_memory() const noexcept { return one_memory_; }   ///< whether both sides are the same bytes

  /// Enqueue a copy of the host's side to the device's, all of it or `bytes` from `offset` on. The host's side is read
  /// when `stream` gets there, so leave it alone until then. Does nothing where both sides are one memory. Throws
  /// invalid_argument for a range outside of the buffer, closed.
  ///@{
  void sync_to_device(const Stream& stream);
  void sync_to_device(std::size_t offset, std::size_t bytes, const Stream& stream);
  ///@}
  /// The same in the other direction. The host sees the bytes once `stream` has passed this point, so wait before
  /// reading them. Where both sides are one memory, that wait is all there is to do.
  ///@{
  void sync_to_host(const Stream& stream);
  void sync_to_host(std::size_t offset, std::size_t bytes, const Stream& stream);
  ///@}

  /// Return the host's side as values of `T`. It stays valid as long as the mirror. Throws invalid_argument when the
  /// size is not a multiple of that of `T`, or the memory is not aligned for it; closed.
  ///@{
  template <class T>
  requires std::is_trivially_copyable_v<T>
  [[nodiscard]] std::span<T> span() {
    return {reinterpret_cast<T*>(host_bytes(sizeof(T), alignof(T))), size() / sizeof(T)};
  }
  template <class T>
  requires std::is_trivially_copyable_v<T>
  [[nodiscard]] std::span<const T> span() const {
    return {reinterpret_cast<const T*>(host_bytes(sizeof(T), alignof(T))), size() / sizeof(T)};
  }
  ///@}

  /// Close both buffers, as Buffer::close does. Everything but the observers throws closed afterwards.
  void close() noexcept;

 private:
  [[nodiscard]] bool check(const char* operation, std::size_t offset, std::size_t bytes, const Stream& stream) const;
  [[nodiscard]] std::byte* host_bytes(std::size_t size, std::size_t alignment) const;

  Buffer device_;
  Buffer host_;  ///< a second owner of `device_` where both are one memory
  bool one_memory_ = false;
};

}  // namespace weir
