// SPDX-License-Identifier: Apache-2.0
#pragma once
// Find writes outside of buffers and writes to buffers that are closed.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "weir/export.hpp"
#include "weir/memory_resource.hpp"

namespace weir {

/// Options of make_debug.
struct DebugOptions {
  std::size_t guard_bytes = 256;  ///< before and after each buffer, rounded up to a multiple of 8; at least 8
  bool poison = true;  ///< fill new buffers with 0xcd, and closed buffers that are kept with 0xdd
  /// How much closed memory is kept from upstream, to see whether somebody still writes there. The oldest goes back
  /// first. A buffer that is larger than this, guards included, is not kept. Needs `poison`.
  std::size_t quarantine_bytes = std::size_t{16} << 20;
};

/// Puts guards of known bytes around each buffer, by fills in the order of the allocation stream, and checks them once
/// all uses of the closed buffer are complete. Then it keeps the memory for a while, filled with poison, and checks the
/// poison before upstream gets the memory back. Damage is reported to the failure sink: which buffer, its size, where
/// the first changed byte is, and how many bytes changed.
///
/// Closing waits for nothing. Allocating waits for no stream unless it would fail otherwise. No stream waits for more
/// than it would without this resource. The thread that closes a buffer checks it if all uses are complete, else a
/// thread of weir does. Memory that only a device reaches is copied to the host on a stream that no user waits for. For
/// the same reason memory does not go back in stream order: it is free again when its uses are complete and it has been
/// checked. While memory is kept, its allocation stream is kept, too.
///
/// When more than 16 MiB wait to be checked, allocations check all memory whose uses are complete; what still waits
/// then is memory that streams still use. When upstream is exhausted, an allocation waits up to a second for closed
/// memory to be checked. Kept memory then goes back at once, and is not checked a second time where only a device
/// reaches it. `trim` checks all of it.
///
/// Exportable memory is not kept, because other processes may rightly use it after the buffer is closed.
///
/// `stats()` counts buffers without their guards. The statistics of upstream count the guards, too, and count kept
/// memory as in use.
class WEIR_API DebugResource : public MemoryResource {
 public:
  /// Return how many damaged places have been found so far. Each buffer has three such places: the guard before it, the
  /// guard after it, and its memory while it is kept.
  [[nodiscard]] virtual std::uint64_t violations() const noexcept = 0;

 protected:
  using MemoryResource::MemoryResource;
};
/// Handle of a DebugResource.
using DebugPtr = std::shared_ptr<DebugResource>;

/// Make "debug(upstream)". Throws invalid_argument when `upstream` is null.
[[nodiscard]] WEIR_API DebugPtr make_debug(ResourcePtr upstream, const DebugOptions& options = {});

}  // namespace weir
