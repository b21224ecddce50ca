// SPDX-License-Identifier: Apache-2.0
#pragma once
// One allocation and its lifetime. Start here, then read memory_resource.hpp.

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <type_traits>
#include <vector>

#include "weir/access.hpp"
#include "weir/device.hpp"
#include "weir/export.hpp"
#include "weir/fwd.hpp"
#include "weir/memory_resource.hpp"
#include "weir/spi/location.hpp"
#include "weir/stream.hpp"

namespace weir {

/// A value of 1, 2, 4 or 8 bytes that can be repeated over memory.
template <class T>
concept FillPattern = std::is_trivially_copyable_v<T> &&
                      (sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8);

/// Owner of a range of a Segment. Keeps the memory, its resource and its driver alive.
///
/// Move-only: `share()` makes a second owner of the same bytes. The memory goes back to its resource when the last
/// owner (Buffer, slice, Tensor, DLPack export) is gone, ordered after the allocation stream and every stream it was
/// used on through weir; nothing waits on the host. Every operation on a closed buffer throws Error{closed}, as do
/// device(), memory_resource() and kind(). Its size and addresses read as zero or null, and it is neither accessible
/// nor read-only.
class WEIR_API Buffer {
 public:
  Buffer() noexcept = default;  ///< behaves like a closed buffer
  /// Take over the ownership of `other`, which is closed afterwards.
  Buffer(Buffer&& other) noexcept : block_(other.block()), offset_(other.offset_), size_(other.size_) {
    other.block_.store(nullptr, std::memory_order_relaxed);
  }
  /// Drop this owner as `close()` does, and take over the ownership of `other`, which is closed afterwards.
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer() {
    if (spi::Block* const mine = block()) drop(*mine);
  }

  /// Return a second owner of the same bytes.
  [[nodiscard]] Buffer share() const;
  /// Return a second owner of `bytes` bytes that begin at `offset`. Throws invalid_argument when they are not all
  /// inside the buffer.
  [[nodiscard]] Buffer slice(std::size_t offset, std::size_t bytes) const;

  /// Drop this owner. If it was the last owner, the memory can be reused; reuse is ordered after the allocation stream
  /// and all recorded uses. Idempotent; several threads may call it at once; never blocks.
  void close() noexcept;
  /// Drop this owner as above, and order the reuse also after everything on `stream` so far. For the allocation stream
  /// that makes no difference. Throws only when memory runs out or the stream is a handle that was moved from (closed).
  /// Then the buffer is still open.
  void close(const Stream& stream);
  [[nodiscard]] bool is_closed() const noexcept { return block() == nullptr; }  ///< also when never opened

  [[nodiscard]] std::size_t size() const noexcept { return is_closed() ? 0 : size_; }  ///< bytes
  /// Return the host address, or null when the host cannot reach the memory or the size is 0. The caller orders reads
  /// and writes through this address, with `Event::wait` or `Stream::synchronize`.
  [[nodiscard]] std::byte* host_data() const noexcept;
  /// Return the device address, or 0 when there is none. It is a pointer for CUDA, a buffer device address for Vulkan,
  /// and the host pointer for host memory.
  [[nodiscard]] std::uint64_t device_address() const noexcept;
  [[nodiscard]] Device device() const;                       ///< where the memory is
  [[nodiscard]] ResourcePtr memory_resource() const;         ///< where the memory came from
  [[nodiscard]] bool is_host_accessible() const noexcept;    ///< whether the host can reach the memory
  [[nodiscard]] bool is_device_accessible() const noexcept;  ///< whether device() can reach the memory
  [[nodiscard]] bool is_read_only() const noexcept;          ///< whether copies and fills into it are refused
  [[nodiscard]] MemoryKind kind() const;                     ///< of the memory

  /// Enqueue a copy of this whole buffer into `dst` (same size, else invalid_argument) on `stream`; may return before
  /// the copy completes. The two buffers may be in memory of any kind on any device. The memory of both stays alive and
  /// unreused until the copy is done. Ranges of the same memory that overlap are refused with
  /// invalid_argument, and a destination that is read-only with permission_denied, as fills of such memory are.
  void copy_to(Buffer& dst, const Stream& stream) const;
  /// Allocate a buffer of the same size from this buffer's resource, enqueue a copy into it on `stream`, and return it.
  [[nodiscard]] Buffer copy_to(const Stream& stream) const;
  /// The same in the other direction: enqueue a copy of the whole of `src` into this buffer.
  void copy_from(const Buffer& src, const Stream& stream);
  /// Enqueue a copy of a range: `bytes` bytes from `src_offset` in the source to `dst_offset` in the destination.
  void copy_to(Buffer& dst, std::size_t dst_offset, std::size_t src_offset, std::size_t bytes,
               const Stream& stream) const;
  /// The same in the other direction: the source is `src`, the destination is this buffer.
  void copy_from(const Buffer& src, std::size_t src_offset, std::size_t dst_offset, std::size_t bytes,
                 const Stream& stream);

  /// Enqueue a copy of `src` in host memory to `offset` in this buffer. `src` has been read when the call returns. When
  /// memory runs out or a driver refuses a part of the copy, this throws and may have written other parts.
  void copy_from(std::span<const std::byte> src, const Stream& stream, std::size_t offset = 0);
  /// Enqueue a copy of `dst.size()` bytes from `offset` in this buffer to `dst` in host memory. `dst` must stay valid
  /// until `stream` has passed this point.
  void copy_to(std::span<std::byte> dst, const Stream& stream, std::size_t offset = 0) const;

  /// Enqueue a fill of the whole buffer, whose size must be a multiple of the pattern's size.
  template <FillPattern T>
  void fill(T pattern, const Stream& stream) {
    fill(pattern, 0, size(), stream);
  }
  /// Enqueue a fill of a range. Any `offset` is allowed; `bytes` must be a multiple of the pattern's size.
  template <FillPattern T>
  void fill(T pattern, std::size_t offset, std::size_t bytes, const Stream& stream) {
    std::uint64_t value = 0;
    std::memcpy(&value, &pattern, sizeof pattern);
    fill_pattern(value, sizeof pattern, offset, bytes, stream);
  }
  /// The same for a pattern whose size is `pattern_bytes` (1, 2, 4 or 8). Its bytes are the low bytes of `pattern`.
  void fill_pattern(std::uint64_t pattern, std::size_t pattern_bytes, std::size_t offset, std::size_t bytes,
                    const Stream& stream);

  /// Record that work outside weir uses the memory on `stream` up to now, so that the free is ordered after that work.
  void use_on(const Stream& stream) const;

  /// Order everything put on `stream` from now on after every use of the memory so far: all recorded uses, and all work
  /// on its allocation stream. Use this before reading a buffer whose writers you do not know.
  void order_after_uses(const Stream& stream) const;

  /// Return an array over this memory, row-major without gaps; see tensor.hpp. Throws invalid_argument when the array
  /// does not fit.
  [[nodiscard]] Tensor view(DType dtype, std::vector<std::int64_t> shape, std::size_t byte_offset = 0) const;

  /// Return a descriptor of this buffer for another process; see ipc.hpp. The peer's stream is ordered after the
  /// present point of `stream` and after every recorded use. Throws invalid_argument for zero bytes; unsupported
  /// when the memory is not exportable, when the buffer lies in more than 250 pages of a paged pool, and for
  /// Access::read_only when the backend cannot lend memory for reading alone; closed.
  [[nodiscard]] ipc::Descriptor ipc_descriptor(const Stream& stream,
                                               ipc::Access access = ipc::Access::read_write) const;

  /// Return a buffer over memory that somebody else owns. `release` runs once, on any thread, when the last owner of
  /// the buffer is gone and all recorded uses are complete. `address` is a host or CUDA pointer; vulkan.hpp wraps
  /// Vulkan buffers. Throws invalid_argument for a null address, for zero bytes, and for memory that CUDA does not know
  /// or that ends earlier; incompatible for memory of another CUDA device; unsupported for Vulkan. If this throws,
  /// `release` has not run.
  [[nodiscard]] static Buffer from_handle(const Device& device, std::uint64_t address, std::size_t bytes,
                                          std::function<void()> release, const Stream& stream);

  explicit Buffer(spi::Block& block) noexcept;  ///< for resources; takes over one owner of `block`
  /// Return the control block of the allocation, for resources; null when closed.
  [[nodiscard]] spi::Block* block() const noexcept { return block_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t offset() const noexcept { return offset_; }  ///< bytes from the beginning of the allocation
  /// Return the segment and the position in it. Throws closed. The segment of an allocation of zero bytes is null.
  [[nodiscard]] spi::Location location() const;

 private:
  friend class MemoryResource;
  Buffer(spi::Block& block, std::size_t offset, std::size_t size) noexcept
      : block_(&block), offset_(offset), size_(size) {}
  spi::Block& open(const char* operation) const;
  spi::Block& open_here(const char* operation) const;
  static void drop(spi::Block& block) noexcept;

  std::atomic<spi::Block*> block_{nullptr};
  std::size_t offset_ = 0;
  std::size_t size_ = 0;
};

}  // namespace weir
