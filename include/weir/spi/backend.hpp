// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one seam that a backend implements: a constant table. An absent entry *is* "unsupported". backends/README.md says
// how to add a backend; tests/conformance says when it is done.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weir/device.hpp"
#include "weir/error.hpp"
#include "weir/fwd.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/segment.hpp"
#include "weir/spi/stranger_fd.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir {
struct ResourceStats;
}

/// What a backend implements, and what stands behind the handles of weir. Programs that use weir need none of it.
namespace weir::spi {

/// The sort of handle that names a segment's memory for another process or API. The values are part of the descriptor
/// format: new ones go to the end, and into is_handle_kind.
enum class HandleKind : std::uint16_t {
  none = 0,              ///< no handle; never in a descriptor
  host_memfd = 1,        ///< sealed memfd, mapped by the importer
  cuda_vmm_fd = 2,       ///< CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR of a VMM handle
  vulkan_opaque_fd = 3,  ///< VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
};

/// Return whether a number is the value of a kind other than `none`.
[[nodiscard]] constexpr bool is_handle_kind(std::uint16_t value) noexcept {
  switch (static_cast<HandleKind>(value)) {
    case HandleKind::host_memfd:
    case HandleKind::cuda_vmm_fd:
    case HandleKind::vulkan_opaque_fd: return true;
    case HandleKind::none: break;
  }
  return false;
}

/// What a resource has with the driver beside its segments: a pool that keeps memory for later segments. All functions
/// are thread-safe.
class Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;
  /// Set `reserved` and `peak_reserved` to what the driver holds for the resource. `stats` comes with the counts of the
  /// resource's segments.
  virtual void count(ResourceStats& stats) const noexcept = 0;
  /// Give back all memory that no segment uses, except `bytes_to_keep`. If `may_wait`, first wait for memory of this
  /// source that was freed in stream order, and for no other memory. Failures are reported.
  virtual void trim(std::size_t bytes_to_keep, bool may_wait) noexcept = 0;
};

/// What a resource asks of SegmentOps::reserve.
struct SegmentRequest {
  MemoryKind kind;           ///< one that the device has
  std::size_t bytes;         ///< > 0, not yet rounded
  bool exportable = false;   ///< true only where the kind is exportable
  StreamState* stream;       ///< allocation stream, of any backend; for kinds that allocate in stream order
  std::uint64_t flags = 0;   ///< the backend's own, from the typed options of its public header
  Source* source = nullptr;  ///< the resource's source, where it has one
};

/// The handle that names a segment outside this process. The file descriptor is new and belongs to the caller.
struct ExportedHandle {
  HandleKind kind = HandleKind::none;  ///< what `fd` is
  UniqueFd fd;                         ///< to send to the importer
  std::size_t allocation = 0;          ///< bytes of all that the driver allocated; the segment begins at byte 0 of it
  bool dedicated = false;              ///< the driver allocated it for one object of its own; see open_view
};

/// A foreign segment to open. Everything about it has been validated except what only the driver can tell.
struct ImportRequest {
  HandleKind kind;         ///< one that `imports` takes
  StrangerFd& fd;          ///< ask it nothing that could block; `trust` it once it is known to be what it should be
  std::size_t size;        ///< of the whole segment
  MemoryKind memory_kind;  ///< as the exporter named it
  bool read_only = false;  ///< the exporter granted no more
  bool part = false;       ///< will be joined (SegmentOps::join), and needs no address; a backend may give it one
};

/// What a driver says of a device's memory.
struct DeviceMemory {
  std::size_t budget;  ///< ResourceStats::device_budget
  std::size_t free;    ///< ResourceStats::device_free
};

/// Memory from drivers. Each function works whatever context is current, and restores that context.
struct SegmentOps {
  /// Make a segment. Returns null, with `shortage` filled in (call, native, device_free, limit), when memory is
  /// exhausted, and throws for every other failure. Either leaves nothing behind.
  Segment* (*reserve)(DeviceState& device, const SegmentRequest& request, Shortage& shortage);
  /// Make the source of a new resource of that kind; null where the kind needs none. Calls no driver, so that a
  /// resource that nobody uses costs nothing. Optional; absent = no kind needs a source.
  std::shared_ptr<Source> (*source)(DeviceState& device, MemoryKind kind) = nullptr;
  /// Reserve at least `bytes` of addresses for memory of a kind that is `paged`. `exportable`, which is true only where
  /// the kind is exportable, says whether its pages are. Throws. Optional.
  PagedSegment* (*reserve_addresses)(DeviceState& device, MemoryKind kind, std::size_t bytes,
                                     bool exportable) = nullptr;
  /// Make a handle that names an exportable segment for another process. Optional.
  ExportedHandle (*export_handle)(Segment& segment) = nullptr;
  /// Make a handle through which another process can only read. What keeps it from writing is the kernel, or the driver
  /// where it maps the memory; never the goodwill of a process that opens handles as weir does. Optional; absent = this
  /// backend cannot lend memory for reading alone.
  ExportedHandle (*export_to_readers)(Segment& segment) = nullptr;
  /// Return whether `import_handle` of this device takes that kind. Optional; absent = it takes none.
  bool (*imports)(const DeviceState& device, HandleKind kind) noexcept = nullptr;
  /// Open a foreign segment, and take the file or let go of it. On every failure it throws and leaves the file and the
  /// process as they were. Optional.
  Segment* (*import_handle)(DeviceState& device, ImportRequest request) = nullptr;
  /// Make a segment whose addresses hold the memory of all `pages`, one behind the other. Each of them is a whole
  /// segment of `device`: a page, or what import_handle made of one. There may be one alone. The new segment keeps
  /// them. On failure, throws and leaves nothing behind. Optional; absent = no kind of this backend is both `paged` and
  /// exportable.
  Segment* (*join)(DeviceState& device, std::span<Segment* const> pages) = nullptr;
  /// Return whether the driver believes what it finds inside the files that name memory, so that a process which has
  /// such a file can crash all others that have it. Such memory goes only between processes of one user. Optional; absent =
  /// the driver does not.
  bool (*believes_files)(const DeviceState& device) noexcept = nullptr;
  /// What export_handle makes; `none` where that is absent.
  HandleKind exports = HandleKind::none;
  /// Return whether `open_view` of this device takes memory that such a handle names. Calls no driver. Optional; absent
  /// = it takes none.
  bool (*views)(const DeviceState& device, HandleKind kind) noexcept = nullptr;
  /// Make a segment over the memory of `of`, which is another backend's on the same hardware, at an address of
  /// `device`. `handle` is what `export_handle` made for it. The core opens one view per segment and device, and
  /// destroys the view first. On failure, throws and leaves the process as it was. Optional.
  Segment* (*open_view)(DeviceState& device, const Segment& of, ExportedHandle handle) = nullptr;
  /// Make a segment over memory that others own, named by an address: a DLPack import, a native pointer. Destroying the
  /// segment calls no driver, and the caller sees to the owner's release. Throws when the address is not of this
  /// device. Optional.
  Segment* (*wrap)(DeviceState& device, std::uint64_t address, std::size_t bytes) = nullptr;
  /// Ask the driver how much memory of a kind there is at this moment. Loads and makes nothing for the sake of the
  /// answer. Empty when the driver does not say. Optional.
  std::optional<DeviceMemory> (*device_memory)(DeviceState& device, MemoryKind kind) noexcept = nullptr;
};

/// Streams of drivers.
struct StreamOps {
  /// Make a stream that the caller names once (`Ref::adopt`). Throws what the driver refuses.
  StreamState* (*create)(DeviceState& device);
  /// Return whether streams of `device` can copy and fill `segment` themselves.
  bool (*reaches)(const DeviceState& device, const Segment& segment) noexcept;
  /// Return whether streams of `device` can move its memory of that kind to `to`, for use there (PrefetchOp). Optional;
  /// absent = no kind moves.
  bool (*prefetches)(const DeviceState& device, MemoryKind kind, const DeviceState& to) noexcept = nullptr;
};

/// A backend: its name, its devices, and what they can do. It is a constant, and lives as long as the process.
struct Backend {
  std::string_view name;  ///< what Device::backend() returns
  int rank = 0;           ///< order in devices(): higher first
  /// Load the driver and list its devices. Called once, under a lock. When the result is empty, `reason` says why in
  /// one line (what is missing, what to install); so does the message of an exception, after which there are no
  /// devices.
  std::vector<DeviceState*> (*devices)(std::string& reason);
  const SegmentOps* segments;  ///< never null
  const StreamOps* streams;    ///< never null
  /// Whether everything of this backend lives in the process itself, and so goes on working in a forked child. If not,
  /// then in a child the core refuses all use of the backend's devices, destroys none of their objects, and calls
  /// nothing of this table for them.
  bool survives_fork = false;
  /// Return whether the driver is gone with the process, or about to be. Whatever is asked of the driver then counts as
  /// complete, whether it was done or not. Optional; absent = never.
  bool (*ended)() noexcept = nullptr;
};

}  // namespace weir::spi
