// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which buffers are live, and which code allocated them.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weir/export.hpp"
#include "weir/memory_resource.hpp"

namespace weir {

/// Options of make_tracking.
struct TrackingOptions {
  /// How many return addresses to keep for each allocation, innermost first, including those inside weir; 0 keeps none,
  /// and a number that is larger than any stack keeps all. Each return address is a step of the unwinder, which costs
  /// far more than the rest of an allocation.
  std::size_t stack_depth = 0;
  /// Report to the failure sink when the last handle of the resource goes away while buffers of it are live.
  bool report_leaks = true;
};

/// A live buffer. Buffers of zero bytes are not tracked, because they have no memory.
struct WEIR_API TrackedBuffer {
  std::uint64_t number = 0;  ///< counts the resource's allocations, from 1
  std::size_t bytes = 0;     ///< asked for
  std::size_t alignment = 0;   ///< in bytes; at least default_alignment
  std::uint64_t stream = 0;    ///< Stream::id() of the allocation stream
  std::vector<void*> stack{};  ///< return addresses; empty when not asked for

  /// Return one line about the buffer. Function names are looked up now, where the program's symbols give them (link
  /// with -rdynamic); elsewhere the line has the module and the offset, for addr2line.
  [[nodiscard]] std::string to_string() const;
};

/// Remembers each buffer from its allocation until its last owner is gone; shares, slices and tensors count as the same
/// buffer.
///
/// A resource lives as long as its buffers, so no buffer is ever left when it ends. A leak shows earlier: the last
/// handle goes away while buffers are live, which nobody intends in most programs. Those buffers are then reported,
/// each once: one line counts them, and each of the first eight gets a line of its own. A resource that stands on this
/// one holds a handle until its own last buffer is gone, so put tracking on top of a stack, or ask outstanding().
class WEIR_API TrackingResource : public MemoryResource {
 public:
  /// Return the live buffers, oldest first.
  [[nodiscard]] virtual std::vector<TrackedBuffer> outstanding() const = 0;

 protected:
  using MemoryResource::MemoryResource;
};
/// Handle of a TrackingResource.
using TrackingPtr = std::shared_ptr<TrackingResource>;

/// Make "tracking(upstream)". Throws invalid_argument when `upstream` is null.
[[nodiscard]] WEIR_API TrackingPtr make_tracking(ResourcePtr upstream, const TrackingOptions& options = {});

}  // namespace weir
