// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds writes outside of buffers and after their end.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "weir/memory_resource.hpp"

namespace weir {

struct DebugOptions {
  std::size_t guard_bytes = 256;  ///< before and after each buffer, rounded up to a multiple of 8; at least 8
  bool poison = true;  ///< fill new buffers with 0xcd, and those that are kept after their end with 0xdd
  /// Closed memory that is kept from upstream, the oldest going first, to see whether somebody still writes
  /// there. A buffer larger than this is not kept. Needs poison.
  std::size_t quarantine_bytes = std::size_t{16} << 20;
};

/// Puts guards of known bytes around each buffer, by fills on the allocation stream, and looks at them once
/// all uses of a closed buffer are over; then keeps the memory for a while, full of poison, and looks at that
/// before upstream gets it. What was changed is told to the failure sink: which buffer, its size, where the
/// first byte is, how many there are.
///
/// Closing waits for nothing, allocating for no stream unless it would fail, and no stream waits more than without it:
/// memory is looked at by the thread that closes when all uses are over, else by a thread of weir; what only a device
/// reaches is copied to the host by a stream of its own. For the same reason memory does not go back in stream order:
/// it is free again when its uses are over and it was looked at; while it is kept, so is its allocation
/// stream. When more than 16 MiB wait to be looked at, allocations look, too, at all whose uses are over: what else
/// waits is what streams still use. When upstream is exhausted, an allocation waits up to a second for closed memory to
/// be looked at; kept memory goes back at once, and what only a device reaches is not looked at a second time then;
/// `trim` looks at all of it.
///
/// Exportable memory is not kept: other processes may rightly use it after the buffer's end.
///
/// `stats()` counts buffers without their guards; upstream's counts them with theirs, and kept memory as in
/// use.
class DebugResource : public MemoryResource {
 public:
  /// Damaged buffers found so far, each by each look at it.
  [[nodiscard]] virtual std::uint64_t violations() const noexcept = 0;

 protected:
  using MemoryResource::MemoryResource;
};
using DebugPtr = std::shared_ptr<DebugResource>;

/// "debug(upstream)". Throws invalid_argument without an upstream.
[[nodiscard]] DebugPtr make_debug(ResourcePtr upstream, const DebugOptions& options = {});

}  // namespace weir
