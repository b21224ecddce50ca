// SPDX-License-Identifier: Apache-2.0
#pragma once
// One allocation and its lifetime. Start here; then memory_resource.hpp.

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <type_traits>
#include <vector>

#include "weir/device.hpp"
#include "weir/fwd.hpp"
#include "weir/memory_resource.hpp"
#include "weir/spi/location.hpp"
#include "weir/stream.hpp"

namespace weir {

/// Value that can be repeated over memory: 1, 2, 4 or 8 bytes.
template <class T>
concept FillPattern = std::is_trivially_copyable_v<T> &&
                      (sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8);

/// Owner of a range of a Segment. Keeps the memory, its resource and its driver alive.
///
/// Move-only: `share()` makes a second owner of the same bytes. The memory goes back to its resource when the last
/// owner (Buffer, slice, Tensor, DLPack export) is gone, ordered after the allocation stream and every stream it was
/// used on through weir; nothing waits on the host. Every operation on a closed buffer throws Error{closed};
/// observers return zero or null.
class Buffer {
 public:
  Buffer() noexcept = default;  ///< the same as a closed one
  Buffer(Buffer&& other) noexcept : block_(other.block()), offset_(other.offset_), size_(other.size_) {
    other.block_.store(nullptr, std::memory_order_relaxed);
  }
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer() {
    if (spi::Block* const mine = block()) drop(*mine);
  }

  /// A second owner of the same bytes.
  [[nodiscard]] Buffer share() const;
  /// A second owner of `bytes` beginning at `offset`. Throws invalid_argument outside of the buffer.
  [[nodiscard]] Buffer slice(std::size_t offset, std::size_t bytes) const;

  /// Drop this owner. If it was the last, the memory is reused after its allocation stream and all recorded uses.
  /// Idempotent, thread-safe against itself, never blocks.
  void close() noexcept;
  /// As above, and also after everything on `stream` so far; on the allocation stream that is the same. Throws only for
  /// want of memory, and then the buffer is still open.
  void close(const Stream& stream);
  [[nodiscard]] bool is_closed() const noexcept { return block() == nullptr; }

  [[nodiscard]] std::size_t size() const noexcept { return is_closed() ? 0 : size_; }  ///< bytes
  /// Host address, or null when the host cannot reach the memory (or size is 0). Reading or writing through it is the
  /// caller's to order: after `Event::wait` or `Stream::synchronize`.
  [[nodiscard]] std::byte* host_data() const noexcept;
  /// Device address, 0 when there is none. CUDA: a pointer. Vulkan: a buffer device address. Host: the pointer.
  [[nodiscard]] std::uint64_t device_address() const noexcept;
  [[nodiscard]] Device device() const;
  [[nodiscard]] ResourcePtr memory_resource() const;
  [[nodiscard]] bool is_host_accessible() const noexcept;
  [[nodiscard]] bool is_device_accessible() const noexcept;
  [[nodiscard]] bool is_read_only() const noexcept;
  [[nodiscard]] MemoryKind kind() const;

  /// Enqueue a copy of all of this into `dst` (same size, else invalid_argument) on `stream`; return before it
  /// completes. Works between any two memories; both stay alive and unreused until it is done. Overlap within one
  /// segment is refused with invalid_argument.
  void copy_to(Buffer& dst, const Stream& stream) const;
  /// Allocate as much from this buffer's resource, copy there, return it.
  [[nodiscard]] Buffer copy_to(const Stream& stream) const;
  void copy_from(const Buffer& src, const Stream& stream);
  /// Range forms: `bytes` from `src_offset` to `dst_offset`.
  void copy_to(Buffer& dst, std::size_t dst_offset, std::size_t src_offset, std::size_t bytes,
               const Stream& stream) const;
  void copy_from(const Buffer& src, std::size_t src_offset, std::size_t dst_offset, std::size_t bytes,
                 const Stream& stream);

  /// Enqueue a copy of host bytes into this buffer at `offset`. The bytes are read before the call returns.
  void copy_from(std::span<const std::byte> src, const Stream& stream, std::size_t offset = 0);
  /// Enqueue a copy of `dst.size()` bytes from `offset` into host memory, which must stay valid until `stream` passed
  /// this point.
  void copy_to(std::span<std::byte> dst, const Stream& stream, std::size_t offset = 0) const;

  /// Enqueue a fill of the whole buffer, whose size must be a multiple of the pattern's.
  template <FillPattern T>
  void fill(T pattern, const Stream& stream) {
    fill(pattern, 0, size(), stream);
  }
  /// Fill a range; any offset, `bytes` a multiple of the pattern's size.
  template <FillPattern T>
  void fill(T pattern, std::size_t offset, std::size_t bytes, const Stream& stream) {
    std::uint64_t value = 0;
    std::memcpy(&value, &pattern, sizeof pattern);
    fill_pattern(value, sizeof pattern, offset, bytes, stream);
  }
  /// The same with the pattern's size (1, 2, 4, 8) as a value, its bytes in the low bytes of `pattern`.
  void fill_pattern(std::uint64_t pattern, std::size_t pattern_bytes, std::size_t offset, std::size_t bytes,
                    const Stream& stream);

  /// Say that work outside weir uses the memory on `stream` up to now: the free is ordered after it.
  void use_on(const Stream& stream) const;

  /// Order everything put on `stream` from now on after every use of the memory so far: those recorded, and all work
  /// on its allocation stream. Use this before reading a buffer whose writers you do not know.
  void order_after_uses(const Stream& stream) const;

  /// Array over this memory, row-major without gaps; see tensor.hpp. Throws invalid_argument when it does not fit.
  [[nodiscard]] Tensor view(DType dtype, std::vector<std::int64_t> shape, std::size_t byte_offset = 0) const;

  /// Descriptor for another process; see ipc.hpp. The peer's stream is ordered after `stream`'s present point and
  /// every recorded use. Throws unsupported when the memory is not exportable.
  [[nodiscard]] ipc::Descriptor ipc_descriptor(const Stream& stream) const;

  /// Buffer over memory that others own: `release` runs once, on any thread, when the last owner is gone and all
  /// recorded uses are complete. `address` is a pointer (host or CUDA; Vulkan buffers come through vulkan.hpp). If
  /// this throws, `release` did not run.
  [[nodiscard]] static Buffer from_handle(const Device& device, std::uint64_t address, std::size_t bytes,
                                          std::function<void()> release, const Stream& stream);

  explicit Buffer(spi::Block& block) noexcept;  ///< for resources: takes over one owner
  [[nodiscard]] spi::Block* block() const noexcept { return block_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t offset() const noexcept { return offset_; }  ///< from byte 0 of the allocation
  /// Segment and position in it; throws `closed`. The segment is null for zero bytes.
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
