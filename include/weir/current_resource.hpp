// SPDX-License-Identifier: Apache-2.0
#pragma once
// The resource that a process agreed on for a device, for code that is given none.

#include "weir/device.hpp"
#include "weir/memory_resource.hpp"

namespace weir {

/// The resource of `device` for code that was given none: what `set_current_resource` named last, and until
/// then a pool, `make_pool(device)`, made when somebody asks first. The same for all threads, never null. A
/// short lock and a count, about 10 ns: take it once, not for every buffer.
///
/// At the end of the process current resources are left to the operating system, like all state of the
/// library: take one out of here before if it does something at its end (logging, tracking). A forked child
/// goes on with the host's; for a device whose driver the parent had loaded this throws unsupported, like all
/// use of it.
[[nodiscard]] ResourcePtr current_resource(const Device& device = best_device());

/// Make `resource` the current one of `device` for all threads, null for the pool. Return the one that was
/// current until now, never null: setting that puts everything back. Buffers stay with the resource they came
/// from.
///
/// Only the current resource is kept here. A pool that was replaced ends with its last handle and its last
/// buffer; as long as somebody has a handle of it, it is the one that null names. Throws incompatible for a
/// resource of another device, and what making a pool throws; then nothing was changed.
ResourcePtr set_current_resource(const Device& device, ResourcePtr resource);

}  // namespace weir
