// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which buffers live, and who allocated them.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weir/memory_resource.hpp"

namespace weir {

struct TrackingOptions {
  /// Return addresses to keep of each allocation, innermost first, those inside weir included; 0 for none.
  /// Each is a step of the unwinder: far more than the rest of an allocation.
  std::size_t stack_depth = 0;
  /// Tell the failure sink when the last handle of the resource goes and buffers of it live on.
  bool report_leaks = true;
};

/// A buffer that lives. Buffers of zero bytes are not tracked: they are nobody's memory.
struct TrackedBuffer {
  std::uint64_t number = 0;  ///< of the resource's allocations, from 1
  std::size_t bytes = 0;
  std::size_t alignment = 0;
  std::uint64_t stream = 0;    ///< Stream::id() of the allocation's
  std::vector<void*> stack{};  ///< return addresses; empty when not asked for

  /// One line; names of functions are looked up now, where the program's symbols tell them (link with
  /// -rdynamic), else module and offset for addr2line.
  [[nodiscard]] std::string to_string() const;
};

/// Remembers each buffer from its allocation to its last owner's end: shares, slices, tensors count as the
/// same buffer.
///
/// A resource lives as long as its buffers, so at its end there is never one left. A leak shows earlier: when
/// the last handle goes and buffers live on, which is nobody's intention in most programs. These are reported
/// then, each once: one line that counts them, and a line each for the first eight. A resource that stands on
/// this one holds a handle until its own last buffer: put tracking on top of a stack, or ask outstanding().
class TrackingResource : public MemoryResource {
 public:
  /// Those that live, oldest first.
  [[nodiscard]] virtual std::vector<TrackedBuffer> outstanding() const = 0;

 protected:
  using MemoryResource::MemoryResource;
};
using TrackingPtr = std::shared_ptr<TrackingResource>;

/// "tracking(upstream)". Throws invalid_argument without an upstream.
[[nodiscard]] TrackingPtr make_tracking(ResourcePtr upstream, const TrackingOptions& options = {});

}  // namespace weir
