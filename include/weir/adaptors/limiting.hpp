// SPDX-License-Identifier: Apache-2.0
#pragma once
// A bound on what one part of a program may take from a resource that others use, too.

#include <cstddef>
#include <memory>

#include "weir/memory_resource.hpp"

namespace weir {

/// Hands on what upstream has, as long as the buffers that live through it have at most `limit()` bytes
/// together. Counted are the bytes that were asked for, not what upstream rounds them to or keeps: a bound on
/// what is reserved is `PoolOptions::limit`. A buffer counts from before upstream is asked until upstream has
/// it back, so that the bound holds at every moment; its memory may still wait for pending work then.
///
/// What does not fit is OutOfMemory with `limit` in its shortage, and upstream is not asked.
class LimitingResource : public MemoryResource {
 public:
  [[nodiscard]] virtual std::size_t limit() const noexcept = 0;  ///< bytes
  /// From now on; buffers that live stay, also when they are more.
  virtual void set_limit(std::size_t bytes) noexcept = 0;

 protected:
  using MemoryResource::MemoryResource;
};
using LimitingPtr = std::shared_ptr<LimitingResource>;

/// "limit(upstream)". Throws invalid_argument without an upstream.
[[nodiscard]] LimitingPtr make_limiting(ResourcePtr upstream, std::size_t limit);

}  // namespace weir
