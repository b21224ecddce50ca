// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of another library as a resource, over two functions: one allocates, the other gives back.

#include <cstddef>
#include <functional>
#include <string>

#include "weir/device.hpp"
#include "weir/export.hpp"
#include "weir/memory_resource.hpp"
#include "weir/stream.hpp"

namespace weir {

/// The functions of make_callback_resource, and what holds for their memory.
struct CallbackOptions {
  std::string name = "callback";  ///< the part after the backend's name: "cuda.callback"
  bool host_accessible = false;   ///< the host can use the address that `allocate` returns
  bool device_accessible = true;  ///< the device can use the address that `allocate` returns
  /// Return the address of `bytes` (> 0) bytes. The address is a multiple of 256. The memory must be usable on `stream`
  /// at once: where it is available only after a point, make the stream wait for that point. Return null or throw
  /// std::bad_alloc when memory is exhausted. The allocation passes any other exception on to its caller.
  std::function<void*(std::size_t bytes, const Stream& stream)> allocate;
  /// Take back the memory that `allocate` returned for as many bytes. No use of it is left on any stream. Called by the
  /// thread that closes the last owner of the memory or by a thread of weir, also after the resource's last handle is
  /// gone. An exception goes to the failure sink.
  std::function<void(void* address, std::size_t bytes)> deallocate;
};

/// Make a resource of `device` over two functions, which are called on several threads at once and without a lock. Each
/// buffer costs one call of each function, so put a pool over this resource. For an alignment above 256 the resource
/// asks for more bytes and places the buffer inside them. The memory has kind `external`, and other processes cannot
/// open it. `trim` waits for all memory that the device's resources are giving back, not only for memory of this one.
/// Throws invalid_argument when a function is missing, unsupported where memory has no address (Vulkan).
[[nodiscard]] WEIR_API ResourcePtr make_callback_resource(const Device& device, CallbackOptions options);

}  // namespace weir
