// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a driver gives. One cuMemAlloc, one VMM handle, one VkDeviceMemory with its VkBuffer, one mmap = one Segment.
// Every Buffer of every resource is a range of one.

#include <cstddef>
#include <cstdint>
#include <functional>

#include "weir/device.hpp"
#include "weir/fwd.hpp"
#include "weir/spi/location.hpp"
#include "weir/spi/ref.hpp"
#include "weir/spi/stranger_fd.hpp"
#include "weir/spi/sync.hpp"

namespace weir::spi {

class PagedSegment;

/// Identity of a segment across processes: random, made on first use. All zero = not made yet.
struct SegmentId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend bool operator==(const SegmentId&, const SegmentId&) = default;
};

/// What memory a segment names, and where in it the segment's byte 0 is. Segments of one device whose `memory` is the
/// same share bytes.
struct MemoryName {
  const void* memory = nullptr;
  std::uint64_t offset = 0;
};

/// Base of each backend's segment. The public fields are set by the backend before anybody else sees the object and
/// never change. Destruction gives the memory back: it must not throw, goes to `report` when the driver refuses, and
/// runs only after every recorded use is complete, on any thread, with any or no context current.
class Segment {
 public:
  DeviceState* device = nullptr;
  MemoryKind kind{};
  std::size_t size = 0;       ///< usable bytes, at least what was asked for
  std::byte* host = nullptr;  ///< address for the host of byte 0; null when not host-accessible
  std::uint64_t address = 0;  ///< address for the device of byte 0; 0 when it has none
  bool device_accessible = false;
  bool exportable = false;  ///< asked for and granted when it was made
  bool imported = false;    ///< made by another process or owner
  bool read_only = false;
  std::int32_t dlpack_device = 0;  ///< DLDeviceType; see KindInfo
  StrangerFd lease;                ///< of an import: its exporter keeps the memory while this is open; set by the core
  std::function<void()> owner_release;  ///< set by the core on wrapped memory; runs last, in ~Segment

  Segment() = default;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  [[nodiscard]] bool host_accessible() const noexcept { return host != nullptr; }

  /// Make writes of the device in the range visible to the host. Called before the host reads mapped memory.
  virtual void before_host_read(std::size_t /*offset*/, std::size_t /*bytes*/) {}
  /// Called before the host writes a range of mapped memory, whose neighbours may share a line of a cache with it.
  virtual void before_host_write(std::size_t /*offset*/, std::size_t /*bytes*/) {}
  /// Make writes of the host in the range visible to the device. Called after the host wrote mapped memory.
  virtual void after_host_write(std::size_t /*offset*/, std::size_t /*bytes*/) {}

  /// Whether the driver can take the memory back in stream order (cuMemFreeAsync).
  [[nodiscard]] virtual bool frees_in_order() const noexcept { return false; }
  /// Give it back so: enqueue the driver's free on `stream` (natively, behind what was submitted there) and forget the
  /// memory, so that the destructor does nothing. False when the driver refused; the destructor then frees,
  /// later, when what is on the stream is over.
  virtual bool free_in_order(StreamState& /*stream*/) noexcept { return false; }

  /// This segment, when its memory comes and goes by pages; else null.
  virtual PagedSegment* paged() noexcept { return nullptr; }

  /// Identity for other processes; the same on every call.
  [[nodiscard]] SegmentId id();
  void set_id(SegmentId id) noexcept;  ///< for imports, before publication
  /// Whether both have an identity already, and the same: two views of one memory.
  [[nodiscard]] bool known_as(const Segment& other) const noexcept;
  /// For backends whose drivers let one memory have several names. Addresses need none.
  [[nodiscard]] virtual MemoryName names() const noexcept { return {this, 0}; }

  void retain() noexcept { owners_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 protected:
  virtual ~Segment();

 private:
  sync::Atomic<std::uint32_t> owners_{1};
  sync::Atomic<std::uint64_t> id_high_{0}, id_low_{0};
};

}  // namespace weir::spi
