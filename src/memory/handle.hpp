// SPDX-License-Identifier: Apache-2.0
#pragma once
// Handles of a resource that outlives them: it ends with its last handle and its last buffer, whichever goes later. The
// handles of a `Resource` call its abandon() when the last of those that share a reference count goes.

#include <memory>
#include <mutex>

#include "weir/memory_resource.hpp"

namespace weir::detail {

/// Return the first handle of a new resource.
template <class Resource>
std::shared_ptr<Resource> first_handle(Resource* made) {
  return {made, [](Resource* resource) { resource->abandon(); }};
}

/// Return the existing handle. When the last one was dropped and somebody asks a buffer for its resource, call `begin`,
/// which counts a further handle, and return a new one. `mutex` lets one thread at a time do this.
template <class Resource, class Mutex, class Begin>
ResourcePtr handle_of(Resource& resource, Mutex& mutex, const Begin& begin) {
  const std::scoped_lock one_at_a_time(mutex);
  if (auto handle = resource.weak_from_this().lock()) return handle;
  begin();
  return {static_cast<MemoryResource*>(&resource),
          [](MemoryResource* one) { static_cast<Resource*>(one)->abandon(); }};
}

}  // namespace weir::detail
