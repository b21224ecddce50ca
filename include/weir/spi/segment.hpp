// SPDX-License-Identifier: Apache-2.0
#pragma once
// A segment is memory as a driver gives it: one cuMemAlloc, one VMM handle, one VkDeviceMemory with its VkBuffer, or
// one mmap. Every Buffer of every resource is a range of one segment.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

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
  std::uint64_t high = 0;                                                ///< upper 64 bits
  std::uint64_t low = 0;                                                 ///< lower 64 bits; set last
  friend bool operator==(const SegmentId&, const SegmentId&) = default;  ///< whether both halves are equal
};

/// The memory that a segment names, and where in that memory the segment's byte 0 is. Segments of one device with the
/// same `memory` share that memory.
struct MemoryName {
  const void* memory = nullptr;  ///< compared, never followed
  std::uint64_t offset = 0;      ///< of byte 0 of the segment within that memory
};

/// Base of each backend's segment. The backend sets the public fields before anybody else sees the object; afterwards
/// they never change. The destructor gives the memory back. It must not throw: a refusal of the driver goes to
/// `report`. It runs only after every recorded use is complete, on any thread, with any context current or none.
class Segment {
 public:
  DeviceState* device = nullptr;   ///< whose memory this is
  MemoryKind kind{};               ///< of the memory
  std::size_t size = 0;            ///< usable bytes, at least what was asked for
  std::byte* host = nullptr;       ///< host address of byte 0; null when not host-accessible
  std::uint64_t address = 0;       ///< device address of byte 0; 0 when it has none
  bool host_coherent = true;       ///< before_host_read, before_host_write and after_host_write have nothing to do
  bool device_accessible = false;  ///< streams of `device` and kernels can reach it
  bool exportable = false;         ///< asked for and granted when it was made
  bool viewable = false;           ///< exportable, and other backends' devices see what the host writes there (ADR 17)
  bool imported = false;           ///< made by another process or owner
  bool read_only = false;          ///< copies and fills into it are refused
  bool peers_read_only = false;    ///< no other process can ever write it, whatever it is lent
  std::int32_t dlpack_device = 0;  ///< DLDeviceType; see KindInfo
  StrangerFd lease;                ///< of an import: the exporter keeps the memory while this is open; set by the core
  std::function<void()> owner_release;  ///< set by the core on wrapped memory; runs last, in ~Segment

  Segment() = default;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  [[nodiscard]] bool host_accessible() const noexcept { return host != nullptr; }  ///< by `host`

  /// Make the device's writes in the range visible to the host. Called before the host reads mapped memory.
  virtual void before_host_read(std::size_t /*offset*/, std::size_t /*bytes*/) {}
  /// Called before the host writes a range of mapped memory. Bytes beside the range may share a cache line with it.
  virtual void before_host_write(std::size_t /*offset*/, std::size_t /*bytes*/) {}
  /// Make the host's writes in the range visible to the device. Called after the host wrote mapped memory.
  virtual void after_host_write(std::size_t /*offset*/, std::size_t /*bytes*/) {}

  /// Return whether the driver can take the memory back in stream order (cuMemFreeAsync).
  [[nodiscard]] virtual bool frees_in_order() const noexcept { return false; }
  /// Give the memory back in stream order: enqueue the driver's free on `stream` (natively, behind what was submitted
  /// there) and forget the memory, so that the destructor does nothing. Returns false when the driver refuses. Then the
  /// destructor frees the memory, after everything on the stream is over.
  virtual bool free_in_order(StreamState& /*stream*/) noexcept { return false; }

  /// Return this segment if its memory comes and goes by pages, else null.
  virtual PagedSegment* paged() noexcept { return nullptr; }
  /// Return the segments whose memory this one names, one behind the other. Such a segment is for other processes, which
  /// open the parts and join them. It has no address. All other segments have no parts.
  [[nodiscard]] virtual std::span<const Ref<Segment>> parts() const noexcept { return {}; }

  /// Return the identity for other processes, which is the same on every call.
  [[nodiscard]] SegmentId id();
  void set_id(SegmentId id) noexcept;  ///< for imports, before publication
  /// Return whether both already have an identity and it is the same: then they are two views of one memory.
  [[nodiscard]] bool known_as(const Segment& other) const noexcept;
  /// Return the memory that this segment names. A backend overrides this if its driver lets one memory have several
  /// names. Memory that has an address needs no name.
  [[nodiscard]] virtual MemoryName names() const noexcept { return {this, 0}; }

  // Views: segments of other backends' devices over this memory. spi/view.hpp opens them.

  /// Return the view that `of` has of this memory, or null while nobody has opened it. Costs one load where there are
  /// no views. The view lives as long as this segment.
  [[nodiscard]] Segment* view_of(const DeviceState& of) const noexcept {
    Segment* view = views_.load(std::memory_order_acquire);
    while (view && view->device != &of) view = view->next_view_;
    return view;
  }
  /// Return whether there are views. Giving the memory back may then wait for their devices.
  [[nodiscard]] bool has_views() const noexcept { return views_.load(std::memory_order_acquire) != nullptr; }
  /// Take over the only owner of a view of this memory. One thread at a time adds views.
  void add_view(Segment& view) noexcept {
    view.next_view_ = views_.load(std::memory_order_relaxed);
    views_.store(&view, std::memory_order_release);
  }
  /// Remember that `by` could not open a view.
  void refuse_view(const DeviceState& by) noexcept { refused_.store(&by, std::memory_order_relaxed); }
  /// Return whether the last view that could not be opened was one for `by`.
  [[nodiscard]] bool refused_view(const DeviceState& by) const noexcept {
    return refused_.load(std::memory_order_relaxed) == &by;
  }

  void retain() noexcept { owners_.fetch_add(1, std::memory_order_relaxed); }  ///< add an owner
  /// Return whether there are several owners. One that is alone stays so, unless it adds another.
  [[nodiscard]] bool has_more_owners() const noexcept { return owners_.load(std::memory_order_acquire) > 1; }
  /// Drop an owner. Dropping the last one destroys the views, and then the segment.
  void release() noexcept {
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    if (has_views()) return end_views();
    delete this;
  }

 protected:
  virtual ~Segment();
  /// For the destructor of a view: take over an owner of the segment whose memory it shows. That segment ends no
  /// earlier than this owner. Without this call, it ends no earlier than the view's destructor.
  [[nodiscard]] Ref<Segment> take_source() noexcept { return std::move(source_); }

 private:
  void end_views() noexcept;

  sync::Atomic<std::uint32_t> owners_{1};
  sync::Atomic<std::uint64_t> id_high_{0}, id_low_{0};
  sync::Atomic<Segment*> views_{nullptr};  // only grows until the last owner is gone
  sync::Atomic<const DeviceState*> refused_{nullptr};
  Segment* next_view_ = nullptr;  // of a view: the next one of the same segment
  Ref<Segment> source_;           // of a view that ends: what it shows
};

}  // namespace weir::spi
