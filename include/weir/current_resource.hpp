// SPDX-License-Identifier: Apache-2.0
#pragma once
// The resource that a process has agreed on for a device, for code that was given no resource.

#include "weir/device.hpp"
#include "weir/export.hpp"
#include "weir/memory_resource.hpp"

namespace weir {

/// Return the current resource of `device`: the resource that `set_current_resource` named last, or, until it is
/// called, a pool made by `make_pool(device)` on the first request. The resource is the same for all threads and never
/// null. The call costs a short lock and a count: take the resource once, not for every buffer.
///
/// At the end of the process, current resources are left to the operating system, like all state of the library. If a
/// resource does something when it ends (logging, tracking), replace it with set_current_resource before the process
/// ends. A forked child keeps the host's current resource. For a device whose driver the parent had loaded, this call
/// throws unsupported there, like every other use of that device.
[[nodiscard]] WEIR_API ResourcePtr current_resource(const Device& device = best_device());

/// Make `resource` the current resource of `device` for all threads; null stands for the default pool. Return the
/// resource that was current before, which is never null; setting that resource again restores the previous state.
/// Buffers stay with the resource they came from.
///
/// weir keeps only the current resource. A default pool that was replaced ends with its last handle and its last
/// buffer. As long as somebody has kept a handle of that pool since, null stands for it; a handle that only a buffer's
/// memory_resource() returned when there was none left does not count. Throws incompatible for a resource of another
/// device, and whatever making a pool throws; a call that throws has changed nothing.
WEIR_API ResourcePtr set_current_resource(const Device& device, ResourcePtr resource);

}  // namespace weir
