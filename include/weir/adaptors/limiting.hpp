// SPDX-License-Identifier: Apache-2.0
#pragma once
// A bound on what one part of a program may take from a resource that others use, too.

#include <cstddef>
#include <memory>

#include "weir/export.hpp"
#include "weir/memory_resource.hpp"

namespace weir {

/// Passes requests on to upstream as long as its live buffers have at most `limit()` bytes together. It counts the
/// bytes that were asked for, not what upstream rounds them to or keeps; `PoolOptions::limit` bounds what is reserved.
/// A buffer counts from before upstream is asked for it until upstream has it back, so that the bound holds at every
/// moment. At that point its memory may still wait for pending work.
///
/// A request that does not fit fails with OutOfMemory, whose shortage has `limit` set; upstream is not asked.
class WEIR_API LimitingResource : public MemoryResource {
 public:
  [[nodiscard]] virtual std::size_t limit() const noexcept = 0;  ///< bytes
  /// Set the limit from now on. Live buffers stay, even when they exceed it.
  virtual void set_limit(std::size_t bytes) noexcept = 0;

 protected:
  using MemoryResource::MemoryResource;
};
/// Handle of a LimitingResource.
using LimitingPtr = std::shared_ptr<LimitingResource>;

/// Make "limit(upstream)". Throws invalid_argument when `upstream` is null.
[[nodiscard]] WEIR_API LimitingPtr make_limiting(ResourcePtr upstream, std::size_t limit);

}  // namespace weir
