// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one seam that a backend implements: a constant table. An absent entry *is* "unsupported". backends/README.md
// says how to add one; tests/conformance says when it is done.

#include <cstdint>
#include <memory>
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

namespace weir::spi {

/// How a segment's memory is named for another process or API. Values are part of the descriptor format.
enum class HandleKind : std::uint16_t {
  none = 0,
  host_memfd = 1,        ///< sealed memfd, mapped by the importer
  cuda_vmm_fd = 2,       ///< CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR of a VMM handle
  vulkan_opaque_fd = 3,  ///< VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
};

/// What a resource has of its own with the driver beside its segments: a pool that keeps memory for later ones. All of
/// it is thread-safe.
class Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;
  /// `stats` are those of the resource's segments: make `reserved` and `peak_reserved` what the driver holds for it.
  virtual void count(ResourceStats& stats) const noexcept = 0;
  /// Give back to the driver what no segment uses, but for `bytes_to_keep`. What was freed in order of streams is
  /// waited for if `may_wait`, and only what was of this source. What goes wrong is reported.
  virtual void trim(std::size_t bytes_to_keep, bool may_wait) noexcept = 0;
};

struct SegmentRequest {
  MemoryKind kind;           ///< one of the device's
  std::size_t bytes;         ///< > 0, not yet rounded
  bool exportable = false;   ///< only where the kind is
  StreamState* stream;       ///< allocation stream, of any backend; for kinds that allocate in stream order
  std::uint64_t flags = 0;   ///< backend's own; from the typed options of its public header
  Source* source = nullptr;  ///< the resource's, where it has one
};

/// A segment's name outside this process. The fd is a new one, owned by the caller.
struct ExportedHandle {
  HandleKind kind = HandleKind::none;
  UniqueFd fd;
};

/// Everything about a foreign segment has been validated but what only the driver can tell.
struct ImportRequest {
  HandleKind kind;         ///< one that `imports` takes
  StrangerFd fd;           ///< asked nothing that could block; `trust`ed once it is known to be what it should be
  std::size_t size;        ///< of the whole segment
  MemoryKind memory_kind;  ///< as the exporter named it
  bool read_only = false;
};

/// Memory from drivers. All functions are correct whatever context is current, and restore it.
struct SegmentOps {
  /// A new segment, or null with `shortage` filled (call, native, device_free, limit) when memory is exhausted.
  /// Throws for everything else. On null and throw nothing was made.
  Segment* (*reserve)(DeviceState& device, const SegmentRequest& request, Shortage& shortage);
  /// A source for a new resource of that kind, or null where it needs none. Calls no driver: a resource that nobody
  /// uses costs nothing. Optional; absent = no kind needs one.
  std::shared_ptr<Source> (*source)(DeviceState& device, MemoryKind kind) = nullptr;
  /// Addresses of at least `bytes` for memory of a kind that is `paged`. Throws. Optional.
  PagedSegment* (*reserve_addresses)(DeviceState& device, MemoryKind kind, std::size_t bytes) = nullptr;
  /// Name an exportable segment for another process. Optional.
  ExportedHandle (*export_handle)(Segment& segment) = nullptr;
  /// Whether `import_handle` of this device takes that kind. Optional; absent = none.
  bool (*imports)(const DeviceState& device, HandleKind kind) noexcept = nullptr;
  /// Open a foreign segment. Throws on every failure and then leaves the process as it was. Optional.
  Segment* (*import_handle)(DeviceState& device, ImportRequest request) = nullptr;
  /// Segment over memory that others own, named by an address: a DLPack import, a native pointer. Destroying it runs
  /// no driver call; the owner's release is the caller's business. Throws when the address is not of this device.
  /// Optional.
  Segment* (*wrap)(DeviceState& device, std::uint64_t address, std::size_t bytes) = nullptr;
};

struct StreamOps {
  StreamState* (*create)(DeviceState& device);
  /// Whether streams of `device` can copy and fill `segment` themselves.
  bool (*reaches)(const DeviceState& device, const Segment& segment) noexcept;
  /// Whether streams of `device` move its memory of that kind to `to`, for use there (PrefetchOp). Optional; absent =
  /// no kind moves.
  bool (*prefetches)(const DeviceState& device, MemoryKind kind, const DeviceState& to) noexcept = nullptr;
};

struct Backend {
  std::string_view name;
  int rank = 0;  ///< order in devices(): higher first
  /// Load the driver and list its devices. Called once, under a lock. Never throws; when the result is empty,
  /// `reason` says why in one line (what is missing, what to install).
  std::vector<DeviceState*> (*devices)(std::string& reason) noexcept;
  const SegmentOps* segments;
  const StreamOps* streams;
  /// Whether everything of this backend lives in the process itself and so goes on in a forked child. Else the core
  /// refuses all use of its devices there, ends none of their objects, and calls nothing of this table for them.
  bool survives_fork = false;
  /// Whether the driver is gone with the process, or about to be: what it is asked then counts as complete, whether it
  /// was done or not. Optional; absent = never.
  bool (*ended)() noexcept = nullptr;
};

}  // namespace weir::spi
