// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory of another library as a resource: two functions that allocate and give back.

#include <cstddef>
#include <functional>
#include <string>

#include "weir/device.hpp"
#include "weir/memory_resource.hpp"
#include "weir/stream.hpp"

namespace weir {

struct CallbackOptions {
  std::string name = "callback";  ///< "cuda.callback"
  bool host_accessible = false;
  bool device_accessible = true;
  /// Address of `bytes` (> 0) at a multiple of 256, for use on `stream` at once: where memory is there only
  /// after a point, let the stream wait for that. Null or std::bad_alloc when memory is exhausted; what else
  /// it throws, the allocation throws.
  std::function<void*(std::size_t bytes, const Stream& stream)> allocate;
  /// Take back what `allocate` returned, of as many bytes: no use of it is left on any stream. Called by the
  /// thread that closes the last buffer, or by a thread of weir, also after the resource's last handle is gone.
  /// What it throws goes to the failure sink.
  std::function<void(void* address, std::size_t bytes)> deallocate;
};

/// Resource of `device` over two functions, which are called on several threads at once and without a lock.
/// Each buffer is one call of theirs: put a pool over it. Larger alignments are found inside of larger
/// memory. The kind of its memory is `external`; other processes cannot have it. Throws invalid_argument when
/// a function is missing, unsupported where memory has no address (Vulkan).
[[nodiscard]] ResourcePtr make_callback_resource(const Device& device, CallbackOptions options);

}  // namespace weir
